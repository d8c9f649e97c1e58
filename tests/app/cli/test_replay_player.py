"""Playing a file on an engine that answers from a script: what is sent, when; what becomes of the answers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.replay_file import parse_steps
from app.cli.replay_player import Player
from app.cli.replay_result import Result
from app.errors import AppError, RequestFailed
from engine import (
    CacheCounts,
    CacheReport,
    Cancel,
    Command,
    Event,
    Failed,
    Finished,
    Flush,
    Flushed,
    Forget,
    Generate,
    History,
    KernelsChosen,
    LoadModel,
    Message,
    ModelReady,
    Pin,
    Predict,
    Predicted,
    PrefillProgress,
    Sample,
    Shutdown,
    Stats,
    TextChunk,
)
from tests.app.cli.instant_engine import NO_TIME, InstantEngine, Script, flushing
from tests.fakes.scripted_engine import model_info

IDLE = Stats("", 0, 0, 0, 0, 0, 9, 0, 0)
MODEL_PATH = Path("/models/m")
MODEL = replace(model_info(str(MODEL_PATH)), name="m")


def answered(request: Generate, *text: str) -> list[Event]:
    """The events of a request whose prompt was read as it came, one token a piece of text."""
    tokens = tuple(range(100, 100 + len(text)))
    pieces = [TextChunk(request.id, piece, number) for number, piece in enumerate(text, 1)]
    prompt = request.tokens or (7,)
    end = Finished(request.id, "stop", "".join(text), tokens, prompt, None, NO_TIME)
    return [PrefillProgress(request.id, 0, 1, 0), *pieces, end]


def polite(command: Command) -> Iterable[Event]:
    """Answers each request at once."""
    if isinstance(command, Generate):
        yield from answered(command, "a", "b")
        yield IDLE


class Played:
    """What a file led to: results in order of ending, commands in order of sending."""

    def __init__(
        self, text: str, script: Script = polite, model_has_template: bool = True, flushes: bool = True
    ) -> None:
        """`flushes`: whether the engine answers Flush."""
        engines: list[InstantEngine] = []

        def make(emit: Callable[[Event], None]) -> InstantEngine:
            engines.append(InstantEngine(emit, flushing(script) if flushes else script))
            return engines[-1]

        self.results: list[Result] = []
        model = replace(MODEL, has_chat_template=model_has_template)
        with Player(make) as self.player:
            self.player.play(parse_steps(text, "file"), model, self.results.append)
        self.commands = engines[0].commands

    @property
    def requests(self) -> list[Generate]:
        return [command for command in self.commands if isinstance(command, Generate)]


def test_requests_go_out_in_the_files_order_and_the_engine_is_closed() -> None:
    played = Played('{"id": "b", "tokens": [1]}\n{"id": "a", "prompt": "x"}\n{"prompt": "y", "raw": true}')
    assert played.requests == [
        Generate("b", tokens=(1,)),
        Generate("a", messages=(Message("user", "x"),)),
        Generate("3", prompt="y"),
    ]
    assert [result.end.id for result in played.results] == ["b", "a", "3"]
    assert played.commands[-1] == Shutdown()


def test_without_a_template_prompts_go_as_they_are() -> None:
    played = Played('{"prompt": "x"}', model_has_template=False)
    assert played.requests == [Generate("1", prompt="x")]


def test_tokens_go_on_from_the_tokens_of_the_one_before() -> None:
    played = Played(
        '{"id": "on", "after": "one", "continue": true, "tokens": [8, 9]}\n{"id": "one", "tokens": [1, 2]}'
    )
    assert [request.tokens for request in played.requests] == [(1, 2), (1, 2, 100, 101, 8, 9)]


def test_a_chat_goes_on_with_its_exact_history() -> None:
    played = Played(
        '{"id": "one", "prompt": "hi"}\n'
        '{"id": "two", "after": "one", "continue": true, "prompt": "more", "chat": "c"}\n'
        '{"id": "three", "after": "two", "continue": true, "messages": [{"role": "user", "content": "end"}]}'
    )
    _, two, three = played.requests
    said = (Message("user", "hi"), Message("assistant", "ab"), Message("user", "more"))
    assert two == Generate("two", messages=said, history=History((7, 100, 101), 2, "/models/m"), chat="c")
    assert three.messages == (*said, Message("assistant", "ab"), Message("user", "end"))
    assert three.history == History((7, 100, 101), 4, "/models/m")


def test_what_cannot_go_on_fails_alone_and_what_waits_for_it_starts() -> None:
    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            if command.id == "one":
                yield Failed("one", "too long", "PromptTooLong")
            else:
                yield from polite(command)

    played = Played(
        '{"id": "one", "tokens": [1]}\n{"id": "two", "after": "one", "continue": true, "tokens": [2]}\n'
        '{"id": "three", "after": "two", "tokens": [3]}',
        script,
    )
    assert [request.id for request in played.requests] == ["one", "three"]
    assert [result.state for result in played.results] == ["failed", "failed", "stop"]
    failed = played.results[1].end
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.error[:11]) == ("NothingToContinue", "one failed,")


def test_a_chat_cannot_go_on_as_text_without_a_template() -> None:
    text = '{"id": "one", "prompt": "x"}\n{"after": "one", "continue": true, "prompt": "y"}'
    played = Played(text, model_has_template=False)
    assert [result.state for result in played.results] == ["stop", "failed"]
    assert "m has no chat template; give the next turn as tokens" in str(played.results[1].end)


def test_commands_of_chats_go_out_in_their_turn_and_are_heard() -> None:
    """The engine answers no Forget and no Pin: what it tells of at the end is behind them."""
    forgotten = replace(IDLE, cached_pages=4)

    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Forget):
            yield forgotten
        yield from polite(command)

    played = Played('{"pin": "c"}\n{"id": "one", "tokens": [1]}\n{"forget": "c", "after": "one"}', script)
    sent = [Pin("c", True), Generate("one", tokens=(1,)), Forget("c"), Flush(), Shutdown()]
    assert played.commands == sent
    assert played.player.tally.stats == forgotten


def waiting(pages: int) -> Stats:
    return replace(IDLE, cache=CacheCounts(waiting_pages=pages))


def test_the_last_figures_are_told_when_what_spilled_is_written() -> None:
    left = [9, 4, 0]

    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            yield from answered(command, "a")
        if isinstance(command, Flush):
            yield waiting(left.pop(0))
            yield Flushed(is_all=not left)

    played = Played('{"tokens": [1]}', script)
    assert [type(command) for command in played.commands] == [Generate, Flush, Flush, Flush, Shutdown]
    assert played.player.tally.stats == waiting(0)


def test_a_disk_that_does_not_write_ends_no_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.replay_player.CLOSING_SECONDS", 0.1)

    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            yield from answered(command, "a")
        if isinstance(command, Flush):
            yield waiting(9)
            yield Flushed(is_all=False)

    assert Played('{"tokens": [1]}', script).player.tally.stats == waiting(9)


def test_a_chat_command_that_is_not_heard_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.replay_player.CLOSING_SECONDS", 0.01)
    with pytest.raises(AppError, match="did not say within"):
        Played('{"pin": "c"}', flushes=False)


def test_a_prediction_is_asked_for_before_and_told_with_the_result() -> None:
    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Predict):
            yield Predicted(command.request.id, 5, 4, 0, 0.25)
        yield from polite(command)

    played = Played('{"id": "one", "tokens": [1], "predict": true}\n{"id": "two", "tokens": [1]}', script)
    asked, sent, _ = played.commands[:3]
    assert isinstance(asked, Predict)
    assert replace(asked.request, id="one") == sent
    predicted = {"prompt_tokens": 5, "cached_tokens": 4, "restored_tokens": 0, "seconds": 0.25}
    assert played.results[0].as_json()["predicted"] == {**predicted, "missed_from": None, "reason": None}
    assert played.results[1].as_json()["predicted"] is None


def test_a_failed_prediction_is_not_the_requests_end() -> None:
    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Predict):
            yield Failed(command.request.id, "no", "InvalidRequest")
        yield from polite(command)

    played = Played('{"id": "one", "tokens": [1], "predict": true}', script)
    assert [result.state for result in played.results] == ["stop"]


@pytest.mark.parametrize(("limit", "cancels"), [(0, 1), (1, 1), (2, 1), (3, 0)])
def test_a_request_is_cancelled_once_after_its_tokens(limit: int, cancels: int) -> None:
    played = Played(f'{{"id": "one", "tokens": [1], "cancel_after_tokens": {limit}}}')
    assert played.commands.count(Cancel("one")) == cancels


@pytest.mark.parametrize(
    ("expected", "script", "good"),
    [
        ("", polite, True),
        (', "expect": "stop"', polite, True),
        (', "expect": "length"', polite, False),
        (', "expect": "failed"', polite, False),
        ("", lambda c: [Failed(c.id, "no", "X")] if isinstance(c, Generate) else [], False),
        (
            ', "expect": "failed"',
            lambda c: [Failed(c.id, "no", "X")] if isinstance(c, Generate) else [],
            True,
        ),
    ],
)
def test_what_is_expected_decides(expected: str, script: Script, good: bool) -> None:
    (result,) = Played(f'{{"tokens": [1]{expected}}}', script).results
    assert result.as_expected is good


def test_events_are_told_apart_by_request_and_answer() -> None:
    """Two requests whose events come mixed; one of them has two answers."""
    waiting: list[Generate] = []

    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            waiting.append(command)
        if len(waiting) == 2 and isinstance(command, Generate):
            yield CacheReport("two", 16, 8, 4)
            yield CacheReport("one", 3, 0, 0)
            yield TextChunk("two", "x", 1, sample=1)
            yield TextChunk("one", "a", 1)
            yield TextChunk("two", "y", 1)
            yield TextChunk("two", "x", 2, sample=1)
            others = (Sample("length", "xx", (5, 5), None),)
            yield Finished("two", "stop", "y", (6, 2), (1,), None, NO_TIME, others=others)
            yield TextChunk("one", "a", 2)
            yield TextChunk("one", "a", 3)
            yield Finished("one", "stop", "aaa", (3, 3, 3), (1,), None, NO_TIME)
            yield IDLE

    two, one = Played('{"id": "one", "tokens": [1]}\n{"id": "two", "tokens": [1], "n": 2}', script).results
    assert (two.end.id, len(two.gaps), two.restored_tokens) == ("two", 1, 4)
    assert (one.end.id, len(one.gaps), one.restored_tokens) == ("one", 2, 0)
    assert two.as_json()["others"] == [
        {"finish_reason": "length", "text": "xx", "tokens": (5, 5), "logprobs": None}
    ]
    cache = {"prompt_tokens": 16, "cached_tokens": 8, "restored_tokens": 4}
    assert two.as_json()["cache"] == {**cache, "missed_from": None, "reason": None}


def test_kernels_chosen_meanwhile_are_those_of_later_results() -> None:
    def script(command: Command) -> Iterable[Event]:
        yield from polite(command)
        if isinstance(command, Generate):
            yield KernelsChosen(replace(MODEL, executor="metal"))

    played = Played('{"id": "a", "tokens": [1]}\n{"id": "b", "tokens": [1], "after": "a"}', script)
    assert [result.as_json()["executor"] for result in played.results] == ["reference", "metal"]


def test_the_last_figures_are_waited_for_and_earlier_ones_do_not_count() -> None:
    late = Stats("", 0, 0, 0, 0, 3, 9, 0, 0)

    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            yield IDLE
            yield from answered(command, "a")
            yield Stats("", 0, 0, 0, 0, 5, 9, 0, 0, running=1)
        if isinstance(command, Flush):
            yield late

    tally = Played('{"tokens": [1]}', script).player.tally
    assert tally.stats == late
    assert (tally.most_pages, tally.most_running) == (5, 1)


def test_an_engine_that_keeps_its_last_figures_to_itself_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.replay_player.CLOSING_SECONDS", 0.01)
    with pytest.raises(AppError, match="did not say within"):
        Played('{"tokens": [1]}', flushes=False)


def test_a_failed_load_is_raised() -> None:
    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, LoadModel):
            yield Failed(command.id, "no weights", "ModelError")

    with pytest.raises(RequestFailed, match="no weights"):
        Player(lambda emit: InstantEngine(emit, script)).load(MODEL_PATH, lambda event: None)


def test_a_load_hands_its_progress_on() -> None:
    heard: list[Event] = []

    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, LoadModel):
            yield IDLE
            yield ModelReady(command.id, MODEL)

    player = Player(lambda emit: InstantEngine(emit, script))
    assert player.load(MODEL_PATH, heard.append) == MODEL
    assert heard == [IDLE]


def test_ctrl_c_cancels_what_runs_and_begins_nothing_more() -> None:
    def script(command: Command) -> Iterable[Event]:
        match command:
            case Generate(id="one"):
                yield from answered(command, "a")
            case Generate(id="two"):
                yield TextChunk("two", "half", 1)
                os.kill(os.getpid(), signal.SIGINT)
            case Cancel(id="two"):
                yield Finished("two", "cancelled", "half", (1,), (1,), None, NO_TIME)
                yield IDLE
            case _:
                pass

    before = signal.getsignal(signal.SIGINT)
    played = Played(
        '{"id": "one", "tokens": [1]}\n{"id": "two", "tokens": [1]}\n{"tokens": [1], "after": "two"}\n'
        '{"tokens": [1], "at": 1000}',
        script,
    )
    assert [result.state for result in played.results] == ["stop", "cancelled"]
    assert (played.player.interrupted, played.player.left_out) == (True, 2)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_ctrl_c_does_not_wait() -> None:
    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return ()

    with pytest.raises(KeyboardInterrupt):
        Played('{"tokens": [1]}', script)
