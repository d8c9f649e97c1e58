"""Other models go on while one is loaded, and before one leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engine.commands import LoadModel
from engine.loading.thread import Apart, Result, on_thread
from engine.residents.opened import Opened, open_both
from engine.residents.opening import Beside
from engine.residents.resident import Resident
from engine.residents.turns import Turns
from engine.settings import EngineSettings


class BesideLoading:
    """Steps of other models while one is loaded, or leaves.

    Attributes:
        is_on: whether what is heard now comes while one is loaded, or its kernels are tried.
    """

    def __init__(self, turns: Turns, hear: Callable[[], None], clock: Callable[[], float]) -> None:
        """`hear`: takes in what is asked meanwhile."""
        self._turns, self._hear, self._clock = turns, hear, clock
        self.is_on = False

    def open(self, command: LoadModel, settings: EngineSettings, others: Sequence[Resident]) -> Opened:
        """Open a model, and the one that drafts for it. Raises as `open_both` does."""
        return open_both(command, settings, self.apart(others))

    def apart(self, others: Sequence[Resident], tell: Callable[[], None] = lambda: None) -> Apart:
        """Has work done on a thread of its own while `others` go on, and `tell` is called."""

        def go_on() -> bool:
            tell()
            return self._go_on(others)

        def run(work: Callable[[], Result], /) -> Result:
            return on_thread(work, go_on)

        return run

    def of(self, others: Sequence[Resident]) -> Beside:
        """What goes on beside a load: they do."""
        return Beside(partial(self.apart, others), partial(self._go_on, others))

    def _go_on(self, others: Sequence[Resident]) -> bool:
        """Take in what is asked, and make a step of one of `others`. Returns whether one had a request."""
        self.is_on = True
        try:
            self._hear()
        finally:
            self.is_on = False
        return self._step(others)

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
