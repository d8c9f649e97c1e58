"""What is heard while a model is loaded: others' requests begin, and any that waits may be withdrawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from engine.command_queue import CommandQueue
from engine.commands import (
    Cancel,
    Command,
    Flush,
    Forget,
    Generate,
    Keep,
    LoadModel,
    Pin,
    Predict,
    Release,
    Share,
    Shutdown,
    UnloadModel,
)
from engine.events.events import Event
from engine.requests.ended import withdrawn
from engine.serving import Serving

Notice = TypeVar("Notice")

_IN_ORDER = Flush | Forget | Generate | Keep | LoadModel | Pin | Release | Share | Shutdown | UnloadModel
"""What a request that comes behind it may hang on."""


class Hearing(Generic[Notice]):
    """Does before their turn what need not wait for the load; for one thread, the engine's."""

    def __init__(
        self,
        commands: CommandQueue[tuple[Command | Notice, float]],
        find: Callable[[str], Serving | None],
        do: Callable[[Generate | Predict | Cancel, float], None],
        emit: Callable[[Event], None],
        waits_for: Callable[[str], bool],
    ) -> None:
        """
        Args:
            find: a model by its path, if it is in memory.
            do: does a command that arrived then.
            waits_for: whether a request waits elsewhere for the model of that path.
        """
        self._commands, self._find, self._do, self._emit = commands, find, do, emit
        self._waits_for = waits_for
        self._withdrawn: Generate | None = None
        self._unneeded_by: object = None  # what was heard last, and woke a model that nobody waits for

    def begins(self, command: Generate, arrived: float) -> None:
        """What is heard from now on comes while this one is done, that waited elsewhere."""
        self._commands.latest = command, arrived

    def hear(self) -> None:
        """To be called again and again while a model is loaded."""
        now = self._commands.latest[0] if self._commands.latest else None
        early = self._commands.take_early(
            lambda item, before: goes_first(item[0], now, [other for other, _ in before], self._find)
        )
        for command, arrived in early:
            if isinstance(command, Cancel) and self._withdraws(command):
                continue
            if isinstance(command, Generate | Predict | Cancel):  # nothing else goes first
                self._do(command, arrived)
        woke = self._withdrawn
        if woke is not None and woke is now:
            path = woke.model
            is_needed = self._waits_for(path) or self._commands.has_waiting(
                lambda item: _needs(item[0], path)
            )
            self._unneeded_by = None if is_needed else self._commands.latest

    @property
    def is_unneeded(self) -> bool:
        """Whether nobody waits any more for the model that a request woke; may be asked on any thread."""
        return self._unneeded_by is not None and self._unneeded_by is self._commands.latest

    def is_withdrawn(self, command: Generate) -> bool:
        """Whether a request that a model was loaded for has ended meanwhile."""
        return self._withdrawn is command

    def _withdraws(self, cancel: Cancel) -> bool:
        """End a request that has not begun: one that waits, or the one that a model is loaded for."""

        def is_meant(command: object) -> bool:
            return isinstance(command, Generate) and command.id == cancel.id

        latest = self._commands.latest
        item = self._commands.withdraw(lambda item: is_meant(item[0]))
        if item is None and latest is not None and self._withdrawn is not latest[0] and is_meant(latest[0]):
            item = latest
        if item is None or not isinstance(command := item[0], Generate):
            return False
        if item is latest:
            self._withdrawn = command
        self._emit(withdrawn(command))
        return True


def _needs(command: object, path: str) -> bool:
    """Whether that model has to be in memory for it, as far as is known: "" may be any."""
    asked = command.request if isinstance(command, Predict) else command
    if not isinstance(asked, Generate | LoadModel | Share):
        return False
    named = asked.path if isinstance(asked, LoadModel) else asked.model
    return "" in (named, path) or named == path


def goes_first(
    command: object, now: object, before: Iterable[object], find: Callable[[str], Serving | None]
) -> bool:
    """Whether a command need not wait for those `before` it: it ends a request, or a model is there for it.

    Args:
        now: what the load is for: a request, too, that has not begun. Others wait for a model loaded anew.
        find: the model of that path, if it is in memory.
    """
    if isinstance(command, Cancel):
        requests = (other for other in (now, *before) if isinstance(other, Generate))
        return command.sample is None or all(other.id != command.id for other in requests)
    asked = command.request if isinstance(command, Predict) else command
    if not isinstance(asked, Generate) or not asked.model or find(asked.model) is None:
        return False
    is_anew = isinstance(now, LoadModel) and now.path == asked.model
    return not is_anew and not any(isinstance(other, _IN_ORDER) for other in before)
