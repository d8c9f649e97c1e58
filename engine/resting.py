"""When a model that nobody uses leaves memory, and how it is loaded again."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.commands import LoadModel


class Resting:
    """Counts the time without a request; for one thread, the engine's.

    It is counted by a clock that nobody sets: neither a change of the date nor sleep of the machine ends a
    model's stay.

    Attributes:
        after: seconds without a request until a model may go; None: it stays.
        command: how the model that rests was loaded; None while one is in memory, and while there is none.
    """

    def __init__(self, after: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.after = after
        self._clock = clock
        self._loaded: LoadModel | None = None
        self._used = 0.0
        self.command: LoadModel | None = None

    def loaded(self, command: LoadModel) -> None:
        """A model is in memory."""
        self._loaded, self.command = command, None
        self.used()

    def used(self) -> None:
        """Somebody needs it now."""
        self._used = self._clock()

    def sent_away(self) -> None:
        """It has left memory because nobody used it: the next request brings it back."""
        self._loaded, self.command = None, self._loaded

    def over(self) -> None:
        """The model that was in memory, or rested, is not wanted any more."""
        self._loaded = self.command = None

    @property
    def due(self) -> float | None:
        """Seconds from now until the model may go; None: never, unless something changes."""
        if self.after is None or self._loaded is None:
            return None
        return max(0.0, self._used + self.after - self._clock())
