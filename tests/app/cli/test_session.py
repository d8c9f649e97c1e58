"""The terminal's client: one request at a time, whatever order events come in, and Ctrl-C as a Cancel."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from app.cli.session import Session
from app.errors import RequestFailed
from engine import (
    Cancel,
    Command,
    Engine,
    Event,
    Failed,
    Generate,
    PrefillProgress,
    Shutdown,
    Stats,
    TextChunk,
)
from engine.kv.ssd.leases import end_leases
from tests.app.cli.instant_engine import InstantEngine, finished, scripted


def test_events_of_the_request_are_handed_on_in_order() -> None:
    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            yield PrefillProgress(command.id, 1, 2, 0)
            yield TextChunk("an older request", "old", 1)
            yield finished("an older request")
            yield Stats(command.id, 0, 7, 0, 0, 1, 9, 0, 0)
            yield TextChunk(command.id, "new", 1)
            yield finished(command.id, "new")
            yield Stats("", 0, 0, 0, 0, 0, 9, 0, 0)

    session, commands = scripted(script)
    heard: list[Event] = []
    with session:
        end = session.complete(Generate("", prompt="x"), heard.append)
        request = commands[0]
        assert isinstance(request, Generate)
        assert request.prompt == "x"
    assert [type(event) for event in heard] == [PrefillProgress, TextChunk]
    assert end == finished(request.id, "new")
    assert session.stats is not None
    assert session.stats.context_tokens == 7
    assert commands[-1] == Shutdown()


def test_requests_get_ids_of_their_own() -> None:
    session, commands = scripted(lambda c: [finished(c.id)] if isinstance(c, Generate) else [])
    with session:
        session.complete(Generate("same", prompt="x"), lambda event: None)
        session.complete(Generate("same", prompt="y"), lambda event: None)
    ids = [command.id for command in commands if isinstance(command, Generate)]
    assert len(set(ids)) == 2


def test_a_failure_is_raised_with_what_the_engine_said() -> None:
    session, _ = scripted(
        lambda c: [Failed(c.id, "too long", "PromptTooLong", "trace")] if isinstance(c, Generate) else []
    )
    with session, pytest.raises(RequestFailed) as raised:
        session.complete(Generate("", prompt="x"), lambda event: None)
    assert (str(raised.value), raised.value.kind, raised.value.detail) == (
        "too long",
        "PromptTooLong",
        "trace",
    )


def test_a_failing_receiver_cancels_the_request() -> None:
    session, commands = scripted(lambda c: [TextChunk(c.id, "x", 1)] if isinstance(c, Generate) else [])

    def broken_pipe(event: Event) -> None:
        raise BrokenPipeError

    with session, pytest.raises(BrokenPipeError):
        session.complete(Generate("", prompt="x"), broken_pipe)
    request = commands[0]
    assert isinstance(request, Generate)
    assert Cancel(request.id) in commands


def test_the_first_ctrl_c_cancels_and_the_request_ends_as_usual() -> None:
    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            yield TextChunk(command.id, "half", 1)
        elif isinstance(command, Cancel):
            yield finished(command.id, "half", "cancelled")

    session, _ = scripted(script)
    before = signal.getsignal(signal.SIGINT)
    with session:
        end = session.complete(Generate("", prompt="x"), lambda event: os.kill(os.getpid(), signal.SIGINT))
    assert (end.text, end.reason) == ("half", "cancelled")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_ctrl_c_that_finds_the_request_at_its_end_is_known() -> None:
    session, _ = scripted(
        lambda c: [TextChunk(c.id, "x", 1), finished(c.id, "x")] if isinstance(c, Generate) else []
    )
    with session:
        end = session.complete(Generate("", prompt="x"), lambda event: os.kill(os.getpid(), signal.SIGINT))
        assert (end.reason, session.is_interrupted) == ("stop", True)
        session.complete(Generate("", prompt="x"), lambda event: None)
        assert not session.is_interrupted


def test_the_second_ctrl_c_does_not_wait() -> None:
    def interrupt_twice(event: Event) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    session, _ = scripted(lambda c: [TextChunk(c.id, "x", 1)] if isinstance(c, Generate) else [])
    before = signal.getsignal(signal.SIGINT)
    with session, pytest.raises(KeyboardInterrupt):
        session.complete(Generate("", prompt="x"), interrupt_twice)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    """As under nohup."""

    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, Generate):
            yield TextChunk(command.id, "x", 1)
            yield finished(command.id, "x")

    session, commands = scripted(script)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with session:
            session.complete(Generate("", prompt="x"), lambda event: os.kill(os.getpid(), signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not any(isinstance(command, Cancel) for command in commands)


def test_the_real_engine_loads_completes_and_ends(random_model: Path) -> None:
    chunks: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, TextChunk):
            chunks.append(event.text)

    with Session(Engine) as session:
        with pytest.raises(RequestFailed):
            session.load(random_model / "nowhere", lambda event: None)
        model = session.load(random_model, lambda event: None)
        assert model.path == str(random_model)
        end = session.complete(Generate("", tokens=(1, 5, 9), max_tokens=5, ignore_eos=True), hear)
    assert len(end.tokens) == 5
    assert "".join(chunks) == end.text


def test_a_new_chat_has_an_id_and_a_lease_of_its_own(tmp_path: Path) -> None:
    with Session(lambda emit: InstantEngine(emit, lambda _: []), tmp_path) as session:
        first, second = session.new_chat(), session.new_chat()
        assert first != second
        assert len(list(tmp_path.glob("*.lease"))) == 2
    assert len(list(tmp_path.glob("*.lease"))) == 2  # nobody has forgotten them: the next start does


def test_a_chat_that_is_left_gives_its_lease_back(tmp_path: Path) -> None:
    """However often one says /new, one file is open; who opens the folder next takes the others for ended."""
    with Session(lambda emit: InstantEngine(emit, lambda _: []), tmp_path) as session:
        for _ in range(3):
            left = session.new_chat()
            session.forget(left)
            session.forget(left)  # as after a signal
        session.new_chat()
        end_leases(tmp_path)
        assert len(list(tmp_path.glob("*.lease"))) == 1
        assert len(list(tmp_path.glob("*.forgotten"))) == 3
    end_leases(tmp_path)
    assert not list(tmp_path.glob("*.lease"))


def test_without_a_cache_on_disk_a_new_chat_is_an_id() -> None:
    session, _ = scripted(lambda _: [])
    with session:
        assert session.new_chat()
