"""Two requests compute one prompt: pages take the place of equal ones, but not of those that are read."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import mlx.core as mx
import pytest

from engine import Cancel, EngineSettings, Finished, Generate, TextChunk
from engine.pacing.chunking import ChunkSizer
from engine.runner import Runner
from engine.steps.parts import Filling
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD

PROMPT = tuple(3 + token % 90 for token in range(7 * 16 + 5))


def test_pages_that_a_chunk_reads_are_not_exchanged(
    executor_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_begun, both_are_there = Event(), Event()
    chunks, layers, exchanged = dict[Filling, list[int]](), list[int](), list[Filling]()
    advance = Runner.advance

    def watched(self: Runner, filling: Filling, count: int) -> mx.array | None:
        pages = filling.part.table.pages
        if chunks.setdefault(filling, list(pages)) != pages:
            exchanged.append(filling)
        layers.append(count)
        if len(chunks) == 2:  # the chat's, and the first one of a prompt
            is_begun.set()
            assert both_are_there.wait(20)
        return advance(self, filling, count)

    def one_layer(self: ChunkSizer, tokens: int, left: int, answers: int = 0) -> int:
        return 1 if answers else left

    def short_chunks(self: ChunkSizer, begin: int, remaining: int, answers: int = 0) -> int:
        return min(32, remaining)

    monkeypatch.setattr(Runner, "advance", watched)
    monkeypatch.setattr("engine.requests.keeping._PAGES_A_STEP", 1)  # fewer than a chunk has
    monkeypatch.setattr(ChunkSizer, "layers", one_layer)
    monkeypatch.setattr(ChunkSizer, "next", short_chunks)
    folder = write_random_model(tmp_path / "model", head_dim=64, num_attention_heads=2, num_key_value_heads=1)
    settings = EngineSettings(
        executor=executor_name, cache=BUILD.parent, page_size=16, speculation=False, kv_pages=64
    )
    with running_engine(settings) as listener:
        listener.load(folder)
        one = Generate("one", tokens=PROMPT, max_tokens=3, ignore_eos=True)
        listener.submit_at(lambda event: isinstance(event, TextChunk), one)
        listener.submit(Generate("chat", tokens=(1, 2, 3), max_tokens=None, ignore_eos=True))
        assert is_begun.wait(20)
        listener.submit(Generate("other", tokens=PROMPT, max_tokens=3, ignore_eos=True, lane="window"))
        both_are_there.set()
        both: list[Finished] = [listener.finished(name) for name in ("one", "other")]
        listener.submit(Cancel("chat"))
        listener.finished("chat")
    assert both[0].tokens == both[1].tokens
    assert 1 in layers
    assert not exchanged
    assert len(chunks) >= 2 * len(PROMPT) // 32  # none of the two found the other's pages
