"""How many prompt tokens to compute at once."""

from __future__ import annotations

import time

DISPATCH_SECONDS = 0.25
"""How long one prefill chunk may take, so that cancel, other work and the screen stay responsive."""


class ChunkSizer:
    """Chooses prefill chunks that last about DISPATCH_SECONDS, from the measured rate."""

    def __init__(self, most: int, page_size: int) -> None:
        """`most` tokens at the most; chunks are whole pages where possible."""
        self._most = most
        self._page_size = page_size
        self._rate = 0.0

    @property
    def rate(self) -> float:
        """Prompt tokens per second of the last full measurement; 0 before the first."""
        return self._rate

    def next(self, remaining: int) -> int:
        """Tokens to compute next, 1 … remaining."""
        size = self._most if self._rate == 0.0 else min(self._most, int(self._rate * DISPATCH_SECONDS))
        if self._rate == 0.0:
            size = min(size, 8 * self._page_size)
        size = max(self._page_size, size - size % self._page_size)
        return min(size, self._most, remaining)

    def measured(self, tokens: int, started: float) -> None:
        """Note that `tokens` took from `started` (time.perf_counter) until now."""
        seconds = time.perf_counter() - started
        if tokens >= self._page_size and seconds > 0:
            self._rate = tokens / seconds
