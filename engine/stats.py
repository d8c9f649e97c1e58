"""Rates over the last second, times between tokens, and when the next Stats event is due."""

from __future__ import annotations

from collections import deque

from engine.events.stat_values import TokenGaps

INTERVAL = 0.1
WINDOW = 1.0
GAPS_KEPT = 512


class Pulse:
    """Counts decoded tokens. Times are seconds of a monotonic clock, given by the caller."""

    def __init__(self) -> None:
        self._tokens: deque[float] = deque()
        self._gaps: deque[float] = deque(maxlen=GAPS_KEPT)
        self._sent = self._told = float("-inf")

    def token(self, now: float) -> None:
        """A token was decoded; those of one step have one time."""
        self._tokens.append(now)

    def gap(self, seconds: float) -> None:
        """A token of an answer came so long after the one before it."""
        self._gaps.append(seconds)

    def gaps(self) -> TokenGaps:
        """Percentiles of the last GAPS_KEPT times between tokens, by nearest rank."""
        if not self._gaps:
            return TokenGaps()
        gaps = sorted(self._gaps)
        p50, p95, p99 = (1000 * gaps[-(-percent * len(gaps) // 100) - 1] for percent in (50, 95, 99))
        return TokenGaps(len(gaps), p50, p95, p99)

    def due(self, now: float) -> bool:
        """Whether INTERVAL has passed since the last `sent`."""
        return now - self._sent >= INTERVAL

    def sent(self, now: float, *, tells_rate: bool) -> None:
        """A Stats event went out; `tells_rate`: with a rate of tokens."""
        self._sent = now
        if tells_rate:
            self._told = now

    def is_untold(self, first: float, last: float) -> bool:
        """Whether an answer with tokens from `first` to `last` has a rate, and none was told since."""
        return self._told < first < last

    def decode_tps(self, now: float) -> float:
        """Tokens per second over the last WINDOW, from its first step on; 0 with fewer than two steps."""
        while self._tokens and now - self._tokens[0] > WINDOW:
            self._tokens.popleft()
        if not self._tokens or self._tokens[0] == self._tokens[-1]:
            return 0.0
        first = self._tokens.count(self._tokens[0])
        return (len(self._tokens) - first) / (self._tokens[-1] - self._tokens[0])
