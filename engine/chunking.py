"""How many prompt tokens to compute at a time, and how many layers of them in a step."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import combinations
from statistics import median

DISPATCH_SECONDS = 0.25
"""How long one step may take, so that cancel, other work and the screen stay responsive."""

BESIDE = 1.8
"""How many times as long as without it a step may take that computes part of a prompt beside answers."""

MORE = 0.25
"""The share of what a step with a slice takes at least that may be added for what the slice computes."""

COMMON = 256
"""Chunks of as many tokens or more are powers of two, and end at multiples: their lengths come again."""

_STEPS_KEPT = 5
_RATES_KEPT = 3
_BESIDE_KEPT = 16
_FIRST_PAGES = 8
_FIRST = 0.5
"""Of what would fill a step beside answers at the rate of prompts alone: the first slice."""
_ALIKE = 128
"""Steps of the same work after which another is tried, where that work is the least there is."""
_APART = 1.5
"""How much more work one step must have than another for the two to tell what work costs."""


class ChunkSizer:
    """Chooses chunks of prompts and slices of chunks, from what steps before took.

    Alone, a chunk goes through all layers in one step of about DISPATCH_SECONDS. Beside running answers a
    step computes as many layers of it, one at least, as make it last about BESIDE times a step of theirs
    alone: a chunk of a few tokens would come through in as short a step, but a product of few rows costs
    nearly as much as one of many. Where a slice takes longer than that however thin it is, the step may take
    MORE of what it takes anyway: thinner slices would hold answers up as long, and more often.

    Work is counted in tokens: that of one token is all layers of it.
    """

    def __init__(self, most: int, page_size: int, layers: int) -> None:
        """`most` tokens of a model of so many `layers`; chunks are whole pages where possible."""
        self._most, self._page_size, self._layers = most, page_size, layers
        self._rates = deque[float](maxlen=_RATES_KEPT)
        self._beside = BesideCosts(page_size / layers)
        self._decode_seconds = defaultdict[int, deque[float]](lambda: deque(maxlen=_STEPS_KEPT))

    @property
    def rate(self) -> float:
        """Prompt tokens per second, the best of the last measurements; 0 before the first.

        A step that compiled something, or waited for somebody, says nothing about the next.
        """
        return max(self._rates, default=0.0)

    def next(self, begin: int, remaining: int, answers: int = 0) -> int:
        """Tokens of the next chunk, 1 … remaining, from token `begin` on, beside so many running answers."""
        alone = int(self.rate * DISPATCH_SECONDS) if self._rates else _FIRST_PAGES * self._page_size
        if answers:
            alone = max(self._page_size, min(alone, int(self._layers * self._work(answers))))
        size = min(alone, self._most)
        if size >= COMMON:
            size = 1 << (size.bit_length() - 1)
            return min(remaining, size if remaining <= size else size - begin % size)
        if size > self._page_size:
            size -= size % self._page_size
        return max(1, min(size, remaining))

    def layers(self, tokens: int, answers: int = 0) -> int:
        """Layers of a chunk of so many tokens that the next step computes, 1 … all."""
        if not answers:
            return self._layers
        return max(1, min(self._layers, int(self._layers * self._work(answers) / tokens)))

    def filled(self, work: float, seconds: float, answers: int = 0) -> None:
        """A step with that work on a prompt beside so many answers took `seconds`."""
        if seconds <= 0:
            return
        if answers:
            if alone := self._alone(answers):
                # What the work costs beside the step that would have been there anyway.
                self._beside.took(work, max(seconds - alone, 0.1 * seconds))
        elif work >= min(self._page_size, 8):
            self._rates.append(work / seconds)

    def decoded(self, answers: int, seconds: float) -> None:
        """A step of so many answers, and nothing else, took `seconds`."""
        self._decode_seconds[answers].append(seconds)

    def _work(self, answers: int) -> float:
        """For the next step beside so many answers."""
        alone = self._alone(answers)
        if alone is None:
            return self._page_size / 2
        first = _FIRST * (BESIDE - 1) * alone * self.rate if self._rates else self._page_size / 2
        return self._beside.work(alone, first)

    def _alone(self, answers: int) -> float | None:
        """What a step of so many answers takes, by the nearest number that was measured.

        The median of the latest: a step during which a request was taken in says nothing.
        """
        if not self._decode_seconds:
            return None
        nearest = min(self._decode_seconds, key=lambda known: abs(known - answers))
        return median(self._decode_seconds[nearest])


class BesideCosts:
    """What work on a prompt adds to a step of answers: something for being there at all, and so much a token.

    Medians of what the latest steps say, since some of them compile or wait.
    """

    def __init__(self, fewest: float) -> None:
        """No step has less work than `fewest`."""
        self._fewest = fewest
        self._latest = deque[tuple[float, float]](maxlen=_BESIDE_KEPT)
        self._alike = 0  # so many of the last steps had about the same work

    def took(self, work: float, seconds: float) -> None:
        """That work added `seconds` to a step."""
        is_like = all(max(work, other) < _APART * min(work, other) for other, _ in self._latest)
        self._alike = self._alike + 1 if is_like else 0
        self._latest.append((work, seconds))

    def work(self, alone: float, first: float) -> float:
        """How much to add to a step that takes `alone` seconds without; `first` before any measurement."""
        if not self._latest:
            return max(self._fewest, first)
        room = (BESIDE - 1) * alone
        largest = max(work for work, _ in self._latest)
        known = self._costs()
        if known is None:  # all alike, and a cost that belongs to none of it looks like its own
            size = room / median(seconds / work for work, seconds in self._latest)
            # Twice as much now and then: it may be being there that costs.
            return size if size >= self._fewest else self._fewest * (2 if self._alike >= _ALIKE else 1)
        fixed, each = known
        most = 2 * largest
        if each > 0:
            most = min(most, (DISPATCH_SECONDS - alone - fixed) / each)
            most = min(most, max(room - fixed, MORE * (alone + fixed)) / each)
        return max(self._fewest, most)

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
        return max(0.0, median(seconds - each * work for work, seconds in self._latest)), each
