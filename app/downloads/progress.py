"""From bytes that threads report to progress that people read: total, rate and time left, now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from app.downloads.events import DownloadEvent, Progress, Retrying, Verifying
from app.downloads.rate import Rate

EVERY = 0.1
"""Seconds between two progress events."""


class ProgressTeller:
    """The watch of one download's transfers. Safe to use from every thread.

    Attributes:
        done: bytes on the disk that are not known to be wrong.
        fetched: bytes that came over the network.
    """

    def __init__(self, id_: int, done: int, total: int, emit: Callable[[DownloadEvent], None]) -> None:
        self._id = id_
        self._emit = emit
        self._total = total
        self._lock = threading.Lock()
        self._rate = Rate(time.monotonic())
        self._told = float("-inf")
        self._name = ""
        self.done = done
        self.fetched = 0

    def came(self, name: str, count: int) -> None:
        """So many bytes came, and count as done."""
        with self._lock:
            self.fetched += count
            self._rate.add(time.monotonic(), count)
        self.counted(name, count)

    def counted(self, name: str, count: int) -> None:
        """So many bytes more of what is on the disk count as done; fewer when `count` is negative."""
        with self._lock:
            now = time.monotonic()
            self.done += count
            self._name = name
            if now - self._told < EVERY and self.done < self._total:
                return
            event = self._progress(now)
        self._emit(event)

    def tick(self) -> None:
        """Tell how it stands also when nothing comes."""
        with self._lock:
            now = time.monotonic()
            if not self._name or now - self._told < EVERY:
                return
            event = self._progress(now)
        self._emit(event)

    def retrying(self, name: str, why: str, seconds: float) -> None:
        """Something failed and is tried again."""
        self._emit(Retrying(self._id, name, why, seconds))

    def verifying(self, name: str) -> None:
        """What is on the disk is read."""
        self._emit(Verifying(self._id, name))

    def _progress(self, now: float) -> Progress:
        self._told = now
        rate = self._rate.per_second(now)
        left = (self._total - self.done) / rate if rate else None
        return Progress(self._id, self._name, self.done, self._total, rate, left)
