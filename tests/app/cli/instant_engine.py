"""An engine that answers each command at once with the events of a script, for tests of its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.cli.session import Session
from engine import Command, Event, Finished, FinishReason, Flush, Flushed, Shutdown, Timing

Script = Callable[[Command], Iterable[Event]]
NO_TIME = Timing(0, 0, 0, 0, 0)


class InstantEngine:
    """Answers each command at once with the events of a script."""

    def __init__(self, emit: Callable[[Event], None], script: Script) -> None:
        self.commands: list[Command] = []
        self._emit = emit
        self._script = script

    def start(self) -> None: ...

    def submit(self, command: Command) -> None:
        self.commands.append(command)
        for event in self._script(command):
            self._emit(event)

    def close(self, timeout: float | None = None) -> bool:
        self.commands.append(Shutdown())
        return True


def scripted(script: Script) -> tuple[Session, list[Command]]:
    """A session on a scripted engine, and the commands that it gets."""
    engines: list[InstantEngine] = []

    def make(emit: Callable[[Event], None]) -> InstantEngine:
        engines.append(InstantEngine(emit, script))
        return engines[-1]

    session = Session(make)
    return session, engines[0].commands


def flushing(script: Script) -> Script:
    """The script of an engine with which nothing waits to be written, unless `script` says otherwise."""

    def play(command: Command) -> Iterable[Event]:
        events = list(script(command))
        yield from events
        if isinstance(command, Flush) and not any(isinstance(event, Flushed) for event in events):
            yield Flushed(is_all=True)

    return play


def finished(request: str, text: str = "", reason: FinishReason = "stop") -> Finished:
    return Finished(request, reason, text, (), (), None, NO_TIME)
