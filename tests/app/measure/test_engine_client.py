"""The client that measures: several requests at once, each with its own tokens, reports and failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.errors import RequestFailed
from app.measure.engine_client import EngineClient
from engine import Cancel, Command, Engine, EngineSettings, Event, Generate, SamplingParams, TextChunk
from tests.fakes.random_model import write_random_model

PROMPT = tuple(range(10, 60))
PATIENCE = 30.0  # seconds
WARM = SamplingParams(temperature=1.0, seed=3)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[EngineClient]:
    with EngineClient(EngineSettings(cache=tmp_path / "kernels")) as made:
        made.load(write_random_model(tmp_path / "model"))
        yield made


def asked(count: int) -> Generate:
    return Generate("", tokens=PROMPT, sampling=WARM, max_tokens=count, ignore_eos=True)


def test_answers_that_run_together_keep_their_own_tokens(client: EngineClient) -> None:
    short, long = client.send(asked(4)), client.send(asked(9))
    client.finish(long)
    client.finish(short)
    assert (len(short.end.tokens), len(long.end.tokens)) == (4, 9)
    assert long.end.tokens[:4] == short.end.tokens
    for answer in (short, long):
        counts = [mark.tokens for mark in answer.marks]
        assert counts == sorted(counts)
        moments = [mark.at for mark in answer.marks]
        assert moments == sorted(moments)
        assert answer.sent < moments[0] <= answer.ended
        assert answer.computed + answer.end.timing.cached_tokens == len(PROMPT)
        assert answer.restored == 0


class Held(Engine):
    """Waits at the fifth token of an answer until it is asked to end one."""

    def __init__(self, emit: Callable[[Event], None], settings: EngineSettings) -> None:
        self._is_asked = threading.Event()

        def emit_and_wait(event: Event) -> None:
            emit(event)
            if isinstance(event, TextChunk) and event.generated_tokens >= 5:
                self._is_asked.wait(PATIENCE)

        super().__init__(emit_and_wait, settings)

    def submit(self, command: Command) -> None:
        super().submit(command)
        if isinstance(command, Cancel):
            self._is_asked.set()


def test_an_answer_is_ended_after_some_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.measure.engine_client.Engine", Held)
    with EngineClient(EngineSettings(cache=tmp_path / "kernels")) as client:
        client.load(write_random_model(tmp_path / "model"))
        answer = client.send(asked(200))
        client.wait_for_tokens(answer, 5)
        client.cancel(answer)
    assert answer.end.reason == "cancelled"
    assert 5 <= len(answer.end.tokens) < 200


def test_what_is_forgotten_is_computed_again(client: EngineClient) -> None:
    chat = Generate("", tokens=PROMPT, max_tokens=2, ignore_eos=True, chat="a")
    assert client.run(chat).computed == len(PROMPT)
    assert client.predict(chat).cached_tokens == len(PROMPT) - 1
    assert client.run(chat).computed == 1
    client.forget("a")
    assert client.run(chat).computed == len(PROMPT)


def test_the_next_prompt_does_not_wait_for_what_is_forgotten(client: EngineClient) -> None:
    client.run(Generate("", tokens=PROMPT, max_tokens=2, ignore_eos=True, chat="a"))
    client.predict(asked(1))  # told of the pages by now
    assert client.stats is not None
    assert client.stats.cached_pages > 0
    client.forget("a")
    assert client.stats.cached_pages == 0


def test_a_failure_is_raised(client: EngineClient, tmp_path: Path) -> None:
    with pytest.raises(RequestFailed, match="outside the model's vocabulary"):
        client.run(Generate("", tokens=(1 << 30,)))
    client.unload()
    with pytest.raises(RequestFailed):
        client.load(tmp_path / "nothing")
