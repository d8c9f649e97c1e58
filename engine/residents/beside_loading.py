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

_MOST_OWED = 1.0
"""Seconds for which others go on at once, at most, behind a tensor that took long."""

_IN_ORDER = Flush | Forget | Generate | Keep | LoadModel | Pin | Release | Share | Shutdown | UnloadModel
"""What a request that comes behind it may hang on."""


class BesideLoading:
    """Steps of other models while one is loaded, or leaves."""

    def __init__(self, turns: Turns, hear: Callable[[], None], clock: Callable[[], float]) -> None:
        """`hear`: takes in what is asked meanwhile."""
        self._turns, self._hear, self._clock = turns, hear, clock

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
                self._hear()
                self._step(others)
            return opening.result()

    def sharing(self, others: Sequence[Resident]) -> Callable[[], None]:
        """To be called as often as it can be while a model is loaded: `others` have half of the time."""
        owed, ended = 0.0, self._clock()

        def go_on() -> None:
            nonlocal owed, ended
            self._hear()
            began = self._clock()
            owed = min(owed + began - ended, _MOST_OWED)
            while owed > 0:
                has_any = self._step(others)
                self._hear()
                ended = self._clock()
                owed = owed - (ended - began) if has_any else 0.0
                began = ended
            ended = began

        return go_on

    def until(self, is_so: Callable[[], bool], others: Sequence[Resident], seconds: float) -> None:
        """Steps of `others` until it is so, none of them has a request, or so many seconds are over."""
        end = self._clock() + seconds
        while not is_so() and self._clock() < end and self._step(others):
            self._hear()

    def _step(self, others: Sequence[Resident]) -> bool:
        """Make a step of one of `others`. Returns whether one had a request."""
        busy = [other for other in others if other.at_work.busy]
        if busy:
            self._turns.take(busy, is_loading=True)
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
