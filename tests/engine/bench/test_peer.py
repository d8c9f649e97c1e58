"""mlx-lm behind plain values: the same greedy tokens as the engine, and one line when it cannot load."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import EngineError, Generate, Peer
from engine.machine.machine import device_kind
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model

PROMPT = (1, 40, 50, 60, 70)
OTHER = (1, 90, 80, 70, 60)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("peer") / "model")


@pytest.fixture(scope="module")
def peer(model: Path) -> Peer:
    return Peer(model, "float32")


def test_the_peer_writes_what_the_engine_writes(model: Path) -> None:
    with running_engine() as listener:
        dtype = listener.load(model).model.dtype
        listener.submit(Generate("one", tokens=PROMPT, max_tokens=12, ignore_eos=True))
        ours = listener.finished("one").tokens
    run = Peer(model, dtype).run(PROMPT, 12)
    assert run.tokens == ours
    assert run.ttft_s > 0
    assert run.decode_tps > 0


def test_a_batch_holds_what_each_prompt_gets_alone(peer: Peer) -> None:
    batch = peer.run_batch([PROMPT, OTHER, PROMPT], 6)
    alone = [peer.run(prompt, 6).tokens for prompt in (PROMPT, OTHER)]
    assert batch.tokens == (alone[0], alone[1], alone[0])
    assert batch.decode_tps > 0


@pytest.mark.skipif(
    device_kind() != "CPU", reason="so small a model takes a GPU as long for hundreds of tokens"
)
def test_the_cached_part_of_a_prompt_is_not_in_its_time(peer: Peer) -> None:
    long = PROMPT * 120
    peer.first_token_after(long, PROMPT)
    after_cache = min(peer.first_token_after(long, PROMPT) for _ in range(3))
    whole = min(peer.run(long + PROMPT, 2).ttft_s for _ in range(3))
    assert 0 < after_cache < whole / 2


def test_a_model_it_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="mlx-lm does not load") as raised:
        Peer(tmp_path, "float32")
    assert "\n" not in str(raised.value)
