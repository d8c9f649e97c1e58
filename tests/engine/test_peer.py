"""mlx-lm behind plain values: the same greedy tokens as the engine, and one line when it cannot load."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import EngineError, Generate, Peer
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model

PROMPT = (1, 40, 50, 60, 70)


def test_the_peer_writes_what_the_engine_writes(tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "model")
    with running_engine() as listener:
        dtype = listener.load(model).model.dtype
        listener.submit(Generate("one", tokens=PROMPT, max_tokens=12, ignore_eos=True))
        ours = listener.finished("one").tokens
    run = Peer(model, dtype).run(PROMPT, 12)
    assert run.tokens == ours
    assert run.ttft_s > 0
    assert run.decode_tps > 0


def test_a_model_it_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="mlx-lm does not load") as raised:
        Peer(tmp_path, "float32")
    assert "\n" not in str(raised.value)
