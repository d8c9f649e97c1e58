"""Other models go on while one is loaded, and before one leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from engine.commands import (
    Cancel,
    Flush,
    Forget,
    Generate,
    Keep,
    LoadModel,
    Pin,
    Release,
    Share,
    Shutdown,
    UnloadModel,
)
from engine.loading.files import ModelFiles
from engine.loading.model import open_model
from engine.loading.thread import Apart, Result, on_thread
from engine.residents.resident import Resident
from engine.residents.turns import Turns
from engine.serving import Serving

_IN_ORDER = Flush | Forget | Generate | Keep | LoadModel | Pin | Release | Share | Shutdown | UnloadModel
"""What a request that comes behind it may hang on."""


class BesideLoading:
    """Steps of other models while one is loaded, or leaves."""

    def __init__(self, turns: Turns, hear: Callable[[], None], clock: Callable[[], float]) -> None:
        """`hear`: takes in what is asked meanwhile."""
        self._turns, self._hear, self._clock = turns, hear, clock

    def open(self, path: Path, others: Sequence[Resident]) -> ModelFiles:
        """Open a model. Raises as `open_model` does."""
        return self.apart(others)(partial(open_model, path))

    def apart(self, others: Sequence[Resident], tell: Callable[[], None] = lambda: None) -> Apart:
        """Has work done on a thread of its own while `others` go on, and `tell` is called."""

        def go_on() -> bool:
            tell()
            self._hear()
            return self._step(others)

        def run(work: Callable[[], Result], /) -> Result:
            return on_thread(work, go_on)

        return run

    def until(self, is_so: Callable[[], bool], others: Sequence[Resident], seconds: float) -> None:
        """Steps of `others` until it is so, none of them has a request, or so many seconds are over."""
        end = self._clock() + seconds
        while not is_so() and self._clock() < end and self._step(others):
            self._hear()

    def _step(self, others: Sequence[Resident]) -> bool:
        """Make a step of one of `others`. Returns whether one had a request."""
        busy = [other for other in others if other.at_work.busy]
        for other in busy:
            other.at_work.neighbour.held_up()
        if busy:
            self._turns.take(busy)
        return bool(busy)


def goes_first(
    command: object, now: object, before: Iterable[object], find: Callable[[str], Serving | None]
) -> bool:
    """Whether a command need not wait for those `before` it: it cancels none of them, or asks a model.

    Args:
        now: what the load is for: a request, too, that has not begun. Others wait for a model loaded anew.
        find: the model of that path, if it is in memory.
    """
    if isinstance(command, Cancel):
        requests = (other for other in (now, *before) if isinstance(other, Generate))
        return all(other.id != command.id for other in requests)
    if not isinstance(command, Generate) or not command.model or find(command.model) is None:
        return False
    is_anew = isinstance(now, LoadModel) and now.path == command.model
    return not is_anew and not any(isinstance(other, _IN_ORDER) for other in before)
