"""An engine as its clients hold it: one of the engine's own, or one that somebody looks at on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine import Command, Event

OnEvent = Callable[[Event], None]


class EngineLike(Protocol):
    """What an engine's client needs of it."""

    def start(self) -> None:
        """Start its thread."""
        ...

    def submit(self, command: Command) -> None:
        """Queue a command; never blocks."""
        ...

    def close(self, timeout: float | None = None) -> bool:
        """Shut down and join. Returns whether it ended in time."""
        ...


MakeEngine = Callable[[OnEvent], EngineLike]
"""Makes one that emits its events so."""
