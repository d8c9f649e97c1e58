"""Requests that share steps and pages answer as each would alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine import EngineSettings, Finished, Generate, SamplingParams, Stats
from tests.engine.cold import Cold
from tests.engine.watched import watch_memory
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def cold(tiny: Path) -> Cold:
    return Cold(tiny)


def prompts(count: int, seed: int = 0, longest: int = 150) -> list[tuple[int, ...]]:
    """Random ones, of which many begin like one before."""
    rng, made = random.Random(seed), list[tuple[int, ...]]()
    for _ in range(count):
        own = tuple(rng.randrange(3, 300) for _ in range(rng.randrange(1, longest)))
        if made and rng.random() < 0.5:
            other = rng.choice(made)
            own = (*other[: rng.randrange(len(other) + 1)], *own)[:longest]
        made.append(own)
    return made


def ask_all(listener: Listener, asked: dict[str, Generate]) -> dict[str, Finished]:
    with listener.held():
        for command in asked.values():
            listener.submit(command)
    return {name: listener.finished(name) for name in asked}


@pytest.mark.parametrize("pages", [400, 40, 12])
def test_a_batch_answers_as_each_request_alone(
    pages: int, tiny: Path, cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_memory(monkeypatch)
    asked = {
        f"r{number}": Generate(f"r{number}", tokens=tokens, max_tokens=40, sampling=GREEDY, ignore_eos=True)
        for number, tokens in enumerate(prompts(16))
    }
    with running_engine(EngineSettings(prefill_chunk=32, kv_pages=pages)) as listener:
        listener.load(tiny)
        ends = ask_all(listener, asked)
        listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        stats = [event for event in listener.events if isinstance(event, Stats)]
    for name, end in ends.items():
        assert len(end.tokens) == 40
        assert cold.accepts(asked[name].tokens or (), end.tokens), name
    assert watch.wrong == []
    assert watch.most_running > (1 if pages == 12 else 3)
    assert stats[-1].pages_used == 0
    assert all(pulse.pages_used + pulse.cached_pages <= pulse.total_pages for pulse in stats)
