"""How fast bytes come, over the last seconds."""

from __future__ import annotations

from collections import deque

WINDOW = 8.0
"""Seconds that a rate looks back."""


class Rate:
    """Bytes a second over the last WINDOW seconds, or since the start. Times are in seconds."""

    def __init__(self, now: float) -> None:
        self._samples: deque[tuple[float, int]] = deque([(now, 0)])
        self._total = 0

    def add(self, now: float, count: int) -> None:
        """`count` bytes came."""
        self._total += count
        if now - self._samples[-1][0] >= WINDOW / 100:
            self._samples.append((now, self._total))

    def per_second(self, now: float) -> float:
        """Bytes a second."""
        while len(self._samples) > 1 and self._samples[1][0] <= now - WINDOW:
            self._samples.popleft()
        since, before = self._samples[0]
        return (self._total - before) / (now - since) if now > since else 0.0
