"""Other models go on while one is loaded: as its files are opened, and between two of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
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
from engine.residents.resident import Resident
from engine.residents.turns import Turns
from engine.serving import Serving

_LOOK_EVERY = 0.001
"""Seconds for which a thread is waited for between two looks at others."""

_IN_ORDER = Flush | Forget | Generate | Keep | LoadModel | Pin | Release | Share | Shutdown | UnloadModel
"""What a request that comes behind it may hang on."""


class BesideLoading:
    """Who loads a model calls `go_on` as often as it can; others have half of the time."""

    def __init__(self, turns: Turns, hear: Callable[[], None], clock: Callable[[], float]) -> None:
        """`hear`: takes in what is asked meanwhile."""
        self._turns, self._hear, self._clock = turns, hear, clock
        self._due = 0.0

    def open(self, path: Path, others: Sequence[Resident]) -> ModelFiles:
        """Open a model, on a thread of its own where there are others: that touches no array.

        Raises as `open_model` does.
        """
        if not others:
            return open_model(path)
        for other in others:
            other.at_work.neighbour.held_up()
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(open_model, path)
            while not wait([opening], _LOOK_EVERY).done:
                self.go_on(others)
            return opening.result()

    def go_on(self, others: Sequence[Resident]) -> None:
        """A step of one of `others`, if one has a request and the last step is as long ago as it took."""
        self._hear()
        busy = [other for other in others if other.at_work.busy]
        began = self._clock()
        if busy and began >= self._due:
            self._turns.take(busy, is_loading=True)
            ended = self._clock()
            self._due = ended + (ended - began)


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
