"""How many prompt tokens to compute in a step."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import combinations
from statistics import median

DISPATCH_SECONDS = 0.25
"""How long one step may take, so that cancel, other work and the screen stay responsive."""

BESIDE = 1.8
"""How many times as long as without it a step may take that computes part of a prompt beside answers."""

MORE = 0.25
"""The share of what a step with a chunk takes at least that may be added for the chunk's tokens."""

_STEPS_KEPT = 5
_RATES_KEPT = 3
_BESIDE_KEPT = 16
_FIRST_PAGES = 8
_APART = 1.5
"""How much more tokens one step must have than another for the two to tell what a token costs."""


class ChunkSizer:
    """Chooses how many prompt tokens a step takes in, from what steps before it took.

    Alone, a step lasts about DISPATCH_SECONDS. Beside running answers it lasts about BESIDE times a step of
    theirs alone; where a chunk takes longer than that however short it is, the step may take MORE of what
    it takes anyway for tokens: shorter chunks would hold answers up as long, and more often.
    """

    def __init__(self, most: int, page_size: int) -> None:
        """`most` tokens at the most; chunks are whole pages where possible."""
        self._most = most
        self._page_size = page_size
        self._rates = deque[float](maxlen=_RATES_KEPT)
        self._beside = BesideCosts(page_size // 2)
        self._decode_seconds = defaultdict[int, deque[float]](lambda: deque(maxlen=_STEPS_KEPT))

    @property
    def rate(self) -> float:
        """Prompt tokens per second, the best of the last measurements; 0 before the first.

        A step that compiled something, or waited for somebody, says nothing about the next.
        """
        return max(self._rates, default=0.0)

    def next(self, remaining: int, answers: int = 0) -> int:
        """Prompt tokens of the next step, 1 … remaining, beside so many running answers."""
        if answers:
            alone = self._alone(answers)
            size = self._page_size if alone is None else self._beside.tokens(alone, self._page_size)
        elif not self._rates:
            size = _FIRST_PAGES * self._page_size
        else:
            size = int(self.rate * DISPATCH_SECONDS)
        if size > self._page_size:
            size -= size % self._page_size
        return max(1, min(size, self._most, remaining))

    def filled(self, tokens: int, seconds: float, answers: int = 0) -> None:
        """A step with `tokens` prompt tokens beside so many answers took `seconds`."""
        if seconds <= 0 or tokens < min(self._page_size, 8):
            return
        if not answers:
            self._rates.append(tokens / seconds)
        elif alone := self._alone(answers):
            # What the tokens cost beside the step that would have been there anyway.
            self._beside.took(tokens, max(seconds - alone, 0.1 * seconds))

    def decoded(self, answers: int, seconds: float) -> None:
        """A step of so many answers, and nothing else, took `seconds`."""
        self._decode_seconds[answers].append(seconds)

    def _alone(self, answers: int) -> float | None:
        """What a step of so many answers takes, by the nearest number that was measured.

        The median of the latest: a step during which a request was taken in says nothing.
        """
        if not self._decode_seconds:
            return None
        nearest = min(self._decode_seconds, key=lambda known: abs(known - answers))
        return median(self._decode_seconds[nearest])


class BesideCosts:
    """What prompt tokens add to a step of answers: something for being there at all, and so much each.

    Medians of what the latest steps say, since some of them compile or wait.
    """

    def __init__(self, fewest: int) -> None:
        """`fewest` tokens are worth a step."""
        self._fewest = fewest
        self._latest = deque[tuple[int, float]](maxlen=_BESIDE_KEPT)

    def took(self, tokens: int, seconds: float) -> None:
        """So many tokens added `seconds` to a step."""
        self._latest.append((tokens, seconds))

    def tokens(self, alone: float, first: int) -> int:
        """How many to add to a step that takes `alone` seconds without; `first` before any measurement."""
        if not self._latest:
            return first
        room = (BESIDE - 1) * alone
        largest = max(tokens for tokens, _ in self._latest)
        known = self._costs()
        if known is None:  # all of a size, and a cost that belongs to none of them looks like theirs
            size = room / median(seconds / tokens for tokens, seconds in self._latest)
            is_full = len(self._latest) == _BESIDE_KEPT
            return int(size) if size >= self._fewest else self._fewest * (2 if is_full else 1)
        fixed, each = known
        most = min(2 * largest, (DISPATCH_SECONDS - alone - fixed) / each if each > 0 else 2 * largest)
        if each <= 0:
            return max(self._fewest, int(most))
        size = max(room - fixed, MORE * (alone + fixed)) / each
        return max(self._fewest, int(min(size, most)))

    def _costs(self) -> tuple[float, float] | None:
        """Seconds for being there and for a token: medians of slopes and offsets (Theil 1950, Sen 1968)."""
        slopes = [
            (later[1] - earlier[1]) / (later[0] - earlier[0])
            for earlier, later in combinations(sorted(self._latest), 2)
            if later[0] >= _APART * earlier[0]
        ]
        if not slopes:
            return None
        each = median(slopes)
        return max(0.0, median(seconds - each * tokens for tokens, seconds in self._latest)), each
