"""When a first token will come is told beside running answers only of who can begin beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine import EngineSettings, Generate, Lane, Predict, Predicted, SamplingParams, TextChunk
from engine.cache.finding import Finding, Reused
from engine.requests.request import Request
from engine.scheduler import MAX_RUNNING
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

PAGES = 24
SETTINGS = EngineSettings(page_size=4, kv_pages=PAGES, prefill_chunk=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model") / "llama", max_position_embeddings=160)


def ask(name: str, tokens: int, most: int, lane: Lane = "api", n: int = 1) -> Generate:
    """A prompt of its own for each length of `name`."""
    prompt = tuple(3 + (len(name) + 7 * place) % 290 for place in range(tokens))
    sampling = SamplingParams(temperature=0)
    return Generate(name, tokens=prompt, max_tokens=most, sampling=sampling, ignore_eos=True, lane=lane, n=n)


def foretold(listener: Listener, command: Generate, running: Generate | None = None) -> float | None:
    """The seconds that are told of `command`, beside a `running` one that has begun its answers."""
    if running is not None:
        listener.submit_at(
            lambda event: isinstance(event, TextChunk) and event.id == running.id, Predict(command)
        )
        listener.submit(running)
    else:
        listener.submit(Predict(command))
    told = listener.wait(lambda event: isinstance(event, Predicted) and event.id == command.id)
    assert isinstance(told, Predicted)
    return told.seconds


def learn(listener: Listener, folder: Path) -> None:
    """How long prompts take on this machine."""
    listener.load(folder)
    for number in range(6):
        listener.submit(ask("x" * (number + 20), 30, 1))
        listener.finished("x" * (number + 20))


@pytest.mark.parametrize(
    ("lane", "tokens", "is_told"), [("api", 8, True), ("api", 40, False), ("window", 40, True)]
)
def test_who_waits_for_pages_is_told_no_time(folder: Path, lane: Lane, tokens: int, is_told: bool) -> None:
    """Nobody knows when a program's answer ends that has them; the window's message takes their place."""
    with running_engine(SETTINGS) as listener:
        learn(listener, folder)
        command = ask("asked", tokens, 4, lane)
        assert foretold(listener, command) is not None
        assert (foretold(listener, command, ask("long", 64, 20)) is not None) is is_told


@pytest.mark.parametrize(("n", "is_told"), [(MAX_RUNNING - 1, True), (MAX_RUNNING, False)])
def test_who_waits_for_a_place_is_told_no_time(folder: Path, n: int, is_told: bool) -> None:
    with running_engine(EngineSettings(page_size=4, kv_pages=400, prefill_chunk=16)) as listener:
        learn(listener, folder)
        command = ask("asked", 20, 4)
        assert foretold(listener, command) is not None
        assert (foretold(listener, command, ask("many", 8, 40, n=n)) is not None) is is_told


def test_who_comes_behind_one_that_waits_for_pages_is_told_no_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_finding: Finding, _request: Request, _reused: Reused) -> float:
        return 0.0

    monkeypatch.setattr(Finding, "reading", nothing)  # so that who came first is first
    with running_engine(SETTINGS) as listener:
        learn(listener, folder)
        little = ask("little", 8, 4)
        assert foretold(listener, little, ask("long", 64, 20)) is not None
        listener.finished("long")
        listener.submit_at(
            lambda event: isinstance(event, TextChunk) and event.id == "again",
            ask("one before", 40, 1),
            Predict(replace(little, id="behind")),
        )
        listener.submit(ask("again", 64, 20))
        told = listener.wait(lambda event: isinstance(event, Predicted) and event.id == "behind")
        assert isinstance(told, Predicted)
        assert told.seconds is None
