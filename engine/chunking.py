"""How many prompt tokens to compute in a step."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

DISPATCH_SECONDS = 0.25
"""How long one step may take, so that cancel, other work and the screen stay responsive."""

BESIDE = 1.8
"""How many times as long as without it a step may take that computes part of a prompt beside answers."""

_STEPS_KEPT = 5
_FIRST_PAGES = 8


class ChunkSizer:
    """Chooses how many prompt tokens a step takes in, from what steps before it took.

    Alone, a step lasts about DISPATCH_SECONDS. Beside running answers it lasts about BESIDE times a step of
    theirs alone.
    """

    def __init__(self, most: int, page_size: int) -> None:
        """`most` tokens at the most; chunks are whole pages where possible."""
        self._most = most
        self._page_size = page_size
        self._rate = 0.0
        self._beside_rate = 0.0
        self._decode_seconds = defaultdict[int, deque[float]](lambda: deque(maxlen=_STEPS_KEPT))

    @property
    def rate(self) -> float:
        """Prompt tokens per second of the last full measurement; 0 before the first."""
        return self._rate

    def next(self, remaining: int, answers: int = 0) -> int:
        """Prompt tokens of the next step, 1 … remaining, beside so many running answers."""
        if answers:
            size = self._beside(answers)
        elif self._rate == 0.0:
            size = _FIRST_PAGES * self._page_size
        else:
            size = int(self._rate * DISPATCH_SECONDS)
        if size > self._page_size:
            size -= size % self._page_size
        return max(1, min(size, self._most, remaining))

    def filled(self, tokens: int, seconds: float, answers: int = 0) -> None:
        """A step with `tokens` prompt tokens beside so many answers took `seconds`."""
        if seconds <= 0 or tokens < min(self._page_size, 8):
            return
        if not answers:
            self._rate = tokens / seconds
            return
        alone = self._alone(answers)
        if alone:
            # What the tokens cost beside the step that would have been there anyway.
            marginal = tokens / max(seconds - alone, 0.1 * seconds)
            before = self._beside_rate or marginal
            self._beside_rate = before + 0.5 * (marginal - before)

    def decoded(self, answers: int, seconds: float) -> None:
        """A step of so many answers, and nothing else, took `seconds`."""
        self._decode_seconds[answers].append(seconds)

    def _beside(self, answers: int) -> int:
        alone = self._alone(answers)
        if alone is None or not self._beside_rate:
            return self._page_size
        return max(self._page_size // 2, int(self._beside_rate * (BESIDE - 1) * alone))

    def _alone(self, answers: int) -> float | None:
        """What a step of so many answers takes, by the nearest number that was measured.

        The median of the latest: a step during which a request was taken in says nothing.
        """
        if not self._decode_seconds:
            return None
        nearest = min(self._decode_seconds, key=lambda known: abs(known - answers))
        return median(self._decode_seconds[nearest])
