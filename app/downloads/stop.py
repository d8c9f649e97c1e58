"""Stopping a download at once, even while it waits for bytes or for the next try."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Stopped(Exception):
    """Somebody asked to stop; nothing went wrong."""


class Stop:
    """A request to stop that wakes whoever waits. Safe to use from every thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._wake: set[Callable[[], None]] = set()

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Ask; everything that waits ends now."""
        with self._lock:
            self._asked.set()
            wake = tuple(self._wake)
        for function in wake:
            function()

    def check(self) -> None:
        """Raise Stopped when somebody asked."""
        if self.is_asked:
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Wait so long. Raises Stopped as soon as somebody asks."""
        if self._asked.wait(seconds):
            raise Stopped

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Generator[None]:
        """Call `wake` from the asking thread if that happens meanwhile."""
        with self._lock:
            self._wake.add(wake)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._wake.discard(wake)
