"""What a long chunk's layers read is written in a step of its own: on a GPU answers would wait for it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import mlx.core as mx
import pytest

from engine import Cancel, EngineSettings, Generate, TextChunk
from engine.pacing.chunking import ChunkSizer
from engine.runner import Runner
from engine.steps.parts import Filling
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD

LAYERS = 3
PROMPT = tuple(3 + token * 7 % 90 for token in range(32 + 5))


def test_a_chunk_of_many_steps_begins_with_one_without_layers(
    executor_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = defaultdict[Filling, list[int]](list)
    advance = Runner.advance

    def watched(self: Runner, filling: Filling, layers: int) -> mx.array | None:
        taken[filling].append(layers)
        return advance(self, filling, layers)

    def one_layer(self: ChunkSizer, tokens: int, left: int, answers: int = 0) -> int:
        return 1 if answers else left

    def short_chunks(self: ChunkSizer, begin: int, remaining: int, answers: int = 0) -> int:
        return min(32, remaining)

    monkeypatch.setattr(Runner, "advance", watched)
    monkeypatch.setattr("engine.pacing.prompt_chunks._MANY_STEPS", LAYERS)
    monkeypatch.setattr(ChunkSizer, "layers", one_layer)
    monkeypatch.setattr(ChunkSizer, "next", short_chunks)
    folder = write_random_model(
        tmp_path / "model",
        head_dim=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_hidden_layers=LAYERS,
        max_position_embeddings=8192,  # a GPU's answer is not to end meanwhile
    )
    settings = EngineSettings(executor=executor_name, cache=BUILD.parent, speculation=False, kv_pages=600)
    with running_engine(settings) as listener:
        listener.load(folder)
        taken.clear()
        listener.submit(Generate("alone", tokens=PROMPT, max_tokens=4, ignore_eos=True))
        alone = listener.finished("alone")
    assert taken
    assert all(0 not in layers for layers in taken.values())
    with running_engine(settings) as listener:
        listener.load(folder)
        listener.submit(Generate("chat", tokens=(1, 2, 3), max_tokens=None, ignore_eos=True))
        listener.wait(lambda event: isinstance(event, TextChunk))
        taken.clear()
        listener.submit(Generate("beside", tokens=PROMPT, max_tokens=4, ignore_eos=True))
        beside = listener.finished("beside")
        chunks = list(taken.values())
        listener.submit(Cancel("chat"))
        listener.finished("chat")
    assert len(chunks) >= 2  # on a GPU the last few tokens are steps of their own
    assert all(layers == [0, *[1] * LAYERS] for layers in chunks)
    assert beside.tokens == alone.tokens
