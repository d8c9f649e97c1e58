"""Rates over the last second, and when the next Stats event is due."""

from __future__ import annotations

from collections import deque

INTERVAL = 0.1
WINDOW = 1.0


class Pulse:
    """Counts decoded tokens. Times are seconds of a monotonic clock, given by the caller."""

    def __init__(self) -> None:
        self._tokens: deque[float] = deque()
        self._sent = float("-inf")

    def token(self, now: float) -> None:
        """A token was decoded."""
        self._tokens.append(now)

    def due(self, now: float) -> bool:
        """Whether INTERVAL has passed since the last `sent`."""
        return now - self._sent >= INTERVAL

    def sent(self, now: float) -> None:
        """A Stats event went out."""
        self._sent = now

    def decode_tps(self, now: float) -> float:
        """Tokens per second over the last WINDOW; 0 with fewer than two."""
        while self._tokens and now - self._tokens[0] > WINDOW:
            self._tokens.popleft()
        if len(self._tokens) < 2:
            return 0.0
        return (len(self._tokens) - 1) / (self._tokens[-1] - self._tokens[0])

    def reset(self) -> None:
        """Forget the tokens: another request begins."""
        self._tokens.clear()
