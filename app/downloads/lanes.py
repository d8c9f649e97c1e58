"""How many files are fetched at once: a number that may change while they are."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from app.downloads.stop import Stop

MOST = 8
"""More connections to one server are no faster, and impolite."""


class Crowded(Exception):
    """There are fewer lanes by now: whoever meets this leaves his, and waits for another."""


class Lanes:
    """So many transfers at a time. Safe to use from every thread."""

    def __init__(self, count: int = 3) -> None:
        """Raises ValueError for a number that is not from 1 to MOST."""
        self._changed = threading.Condition()
        self._taken = 0
        self._count = 0
        self.set_count(count)

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count

    def set_count(self, count: int) -> None:
        """Let there be so many from now on; who is one too many hears of it in `check`. Raises ValueError."""
        if not 1 <= count <= MOST:
            raise ValueError(f"{count} files at once; it is from 1 to {MOST}")
        with self._changed:
            self._count = count
            self._changed.notify_all()

    def check(self) -> None:
        """Raise Crowded when more lanes are taken than there are."""
        if self._taken > self._count:
            raise Crowded

    @contextmanager
    def taken(self, stop: Stop) -> Generator[None]:
        """Wait for a lane and have it within. Raises Stopped when somebody asks to stop meanwhile."""
        with stop.waking(self._wake), self._changed:
            while self._taken >= self._count:
                stop.check()
                self._changed.wait()
            self._taken += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1
                self._changed.notify()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
