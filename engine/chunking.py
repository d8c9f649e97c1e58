"""How many prompt tokens to compute at a time, and how many layers of them in a step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from statistics import median

DISPATCH_SECONDS = 0.25
"""How long one step may take, so that cancel, other work and the screen stay responsive."""

BESIDE = 1.9
"""How many times as long as without it a step may take that computes part of a prompt beside answers."""

MORE = 0.25
"""The share of what a step with the thinnest slice takes that may be added for what the slice computes."""

COMMON = 256
"""Chunks of as many tokens or more are powers of two, and end at multiples."""

LONG = 2048
"""Prompts of any length are cut into chunks of as many tokens, wherever the machine is fast enough."""

_STEPS_KEPT = 5
_RATES_KEPT = 3
_FIRST_PAGES = 8
_FIRST = 0.5
"""Of what would fill a step beside answers at the rate of prompts alone: the first slice."""
_UNDER, _OVER = 0.9, 1.05
"""Of what a step may take: between them slices stay what they are."""
_LEAST, _MOST = 0.3, 2.0
"""What work is multiplied by at a time."""
_FINER = 3
"""Sizes of slices from one to one of twice the work."""
_NOISE = 0.05
"""Of what a step may take: as much is no difference."""
_FRESH = 200
"""Steps for which what was measured of other sizes says something of now."""
_TRIED_AGAIN = 50, 5000
"""Steps after which a size that was too much is tried again: at first, and when it often was."""


def is_common(begin: int, tokens: int) -> bool:
    """Whether the chunk from token `begin` on is one that many prompts have: one of `common_chunks`."""
    is_cut = tokens >= COMMON and tokens.bit_count() == 1 and begin % tokens == 0
    return is_cut and (begin <= tokens or tokens >= LONG)


def common_chunks(most: int, length: int) -> list[tuple[int, int]]:
    """The first token and the number of tokens of the common chunks, of prompts up to `length` tokens.

    Of `most` tokens at most: those with which chunks grow to their size, and the long ones behind.
    """
    sizes = [1 << bits for bits in range(COMMON.bit_length() - 1, most.bit_length())]
    begins = [(begin, size) for size in sizes for begin in range(0, length - size + 1, size)]
    return [(begin, size) for begin, size in begins if is_common(begin, size)]


class ChunkSizer:
    """Chooses chunks of prompts and slices of chunks, from what steps before took.

    Alone, a chunk goes through all layers in one step of about DISPATCH_SECONDS. Beside running answers a
    step computes as many layers of it, one at least, as make it last about BESIDE times a step of theirs
    alone: a chunk of a few tokens would come through in as short a step, but a product of few rows costs
    nearly as much as one of many. Where a slice takes longer than that however thin it is, the step may take
    MORE of what it takes anyway: thinner slices would hold answers up as long, and more often.
    """

    def __init__(self, most: int, page_size: int, layers: int) -> None:
        """`most` tokens of a model of so many `layers`; chunks are whole pages where possible."""
        self._most, self._page_size, self._layers = most, page_size, layers
        self._rates = deque[float](maxlen=_RATES_KEPT)
        self._beside = BesideWork(self._works(), self._whole(self._most))
        self._each, self._is_short = 1, False
        self._decode_seconds = defaultdict[int, deque[float]](lambda: deque(maxlen=_STEPS_KEPT))

    @property
    def rate(self) -> float:
        """Prompt tokens per second, the best of the last measurements; 0 before the first.

        A step that compiled something, or waited for somebody, says nothing about the next.
        """
        return max(self._rates, default=0.0)

    def next(self, begin: int, remaining: int, answers: int = 0) -> int:
        """Tokens of the next chunk, 1 … remaining, from token `begin` on, beside so many running answers."""
        if not answers:
            alone = int(self.rate * DISPATCH_SECONDS) if self._rates else _FIRST_PAGES * self._page_size
            return self._cut(begin, remaining, self._whole(alone))
        work = self._work(answers)
        whole = self._whole(work)
        tokens = self._cut(begin, remaining, whole)
        self._each, self._is_short = max(1, work // whole), tokens < whole
        if self._is_short:
            self._each = max(self._each, min(self._beside.most_layers, work // tokens))
        return tokens

    def layers(self, tokens: int, left: int, answers: int = 0) -> int:
        """Of the layers that are left of a chunk, those that the next step computes, 1 … left."""
        most = left
        if answers:
            most = min(left, self._each, self._work(answers) // tokens)
        elif self._rates:  # a chunk that was begun beside answers may be a long one
            most = min(left, int(2 * self._layers * self.rate * DISPATCH_SECONDS / tokens))
        return -(-left // -(-left // max(1, most)))  # the same in each of the steps it takes

    def filled(self, tokens: int, share: float, seconds: float, answers: int = 0) -> None:
        """A step with that share of all layers of so many prompt tokens, beside answers, took `seconds`."""
        if seconds <= 0:
            return
        if answers:
            alone = self._alone(answers)
            if alone and not self._is_short:
                self._beside.took(round(tokens * share * self._layers), seconds, answers, alone)
        elif tokens * share >= min(self._page_size, 8):
            self._rates.append(tokens * share / seconds)

    def decoded(self, answers: int, seconds: float) -> None:
        """A step of so many answers, and nothing else, took `seconds`."""
        self._decode_seconds[answers].append(seconds)

    def _cut(self, begin: int, remaining: int, size: int) -> int:
        """So many tokens, or what is left; long chunks end at multiples."""
        if size >= COMMON and size < remaining:
            size -= begin % size
        return max(1, min(size, remaining))

    def _whole(self, tokens: int) -> int:
        """At most so many tokens that a chunk may have: a power of two from COMMON on, else whole pages."""
        size = min(tokens, self._most)
        if size >= COMMON:
            return 1 << (size.bit_length() - 1)
        return size - size % self._page_size if size > self._page_size else size

    def _works(self) -> list[int]:
        """Of the slices to choose from, ascending: tokens times layers."""
        least, most = min(self._page_size, self._most), self._whole(self._most) * self._layers
        asked = (int(least * 2 ** (step / _FINER) + 0.5) for step in count())
        return sorted({*takewhile(lambda work: work < most, asked), most})

    def _work(self, answers: int) -> int:
        """Of the next slice beside so many answers."""
        alone = self._alone(answers)
        first = 0.0 if alone is None else _FIRST * (BESIDE - 1) * alone * self.rate
        return self._beside.work(first * self._layers)

    def _alone(self, answers: int) -> float | None:
        """What a step of so many answers takes, by the nearest number that was measured.

        The median of the latest: a step during which a request was taken in says nothing.
        """
        if not self._decode_seconds:
            return None
        nearest = min(self._decode_seconds, key=lambda known: abs(known - answers))
        return median(self._decode_seconds[nearest])


class BesideWork:
    """The most work, of some sizes, with which steps last no longer than they may.

    Work is tokens times layers. Each size is judged by steps that had it, by their median, since some compile
    or wait: what being there costs whatever the work, that a GPU does more work in the same time, that tokens
    cost more behind a long history, none of it needs a model then.

    Attributes:
        most_layers: of a chunk of few tokens, as far as is known: a layer costs something whatever is in it.
    """

    def __init__(self, works: Sequence[int], layer: int) -> None:
        """`works`: ascending; `layer`: the work of one layer of the longest chunk."""
        self.most_layers = 4
        self._works, self._layer = works, layer
        self._at: int | None = None
        self._answers, self._steps = 0, 0
        self._latest = defaultdict[int, list[float]](list)
        self._known = dict[int, _Known]()

    def work(self, first: float) -> int:
        """Of the next step's slice; about `first` before any measurement."""
        return self._works[self._index(first) if self._at is None else self._at]

    def took(self, work: int, seconds: float, answers: int, alone: float) -> None:
        """A step with that work beside so many answers took `seconds`; without it takes `alone`."""
        if answers != self._answers:
            self._latest.clear()
            self._known.clear()
        self._answers, self._steps = answers, self._steps + 1
        near = self._nearest(work)
        self._at = near if self._at is None else self._at
        if near < self._at and 2 * work > self._works[self._at]:
            near = self._at  # layers are whole, and come out even
        latest = self._latest[near]
        latest.append(seconds)
        if len(latest) < _STEPS_KEPT:
            return
        before = self._known.get(near)
        rest = before.rest if before else _TRIED_AGAIN[0]
        self._known[near] = _Known(median(latest), self._steps, rest)
        latest.clear()
        if near == self._at:
            self._at = self._chosen(near, alone)

    def _chosen(self, at: int, alone: float) -> int:
        """The size to go on with, after that one was measured."""
        known, least = self._known[at], self._least(at)
        may = min(max(BESIDE * alone, (1 + MORE) * (least or 0.0)), DISPATCH_SECONDS)
        if least is not None:
            self.most_layers = max(1, int((may - alone) / max(least - alone, _NOISE * may)))
        rest = alone if least is None else least  # what nothing of the work costs
        share = (may - rest) / max(known.seconds - rest, _NOISE * may)
        if known.seconds > _OVER * may and at:
            known.rest = min(2 * known.rest, _TRIED_AGAIN[1])
            return min(self._index(max(share, _LEAST) * self._works[at]), at - 1)
        if known.seconds > _UNDER * may or at + 1 == len(self._works):
            return at
        # More layers cost more however few their tokens are: of these one size more at a time.
        goal = self._index(min(min(share, _MOST) * self._works[at], self._layer))
        return next((size for size in range(max(at + 1, goal), at, -1) if self._may_try(size, may)), at)

    def _least(self, at: int) -> float | None:
        """What a step takes however little it does; None where that is not known.

        On a line through what another size, of twice or half the work at least, has taken of late.
        """
        if not at:
            return self._known[0].seconds
        fresh = [size for size, known in self._known.items() if self._steps - known.step <= _FRESH]
        others = [size for size in fresh if abs(size - at) >= _FINER]
        near = min(others, key=lambda size: abs(size - at), default=None)
        if near is None:
            return None
        low, high = min(at, near), max(at, near)
        seconds = min(self._known[low].seconds, self._known[high].seconds)
        more = self._known[high].seconds - seconds
        return seconds - more * self._works[low] / (self._works[high] - self._works[low])

    def _may_try(self, at: int, may: float) -> bool:
        """Whether that size is not known to take longer; what was measured long ago is not known."""
        known = self._known.get(at)
        return known is None or known.seconds <= may or self._steps - known.step > known.rest

    def _index(self, work: float) -> int:
        """Of the largest size that is no more work, or of the least."""
        return max(0, bisect_right(self._works, work) - 1)

    def _nearest(self, work: int) -> int:
        """The size that comes nearest to so much work."""
        below = self._index(work)
        around = range(below, min(below + 2, len(self._works)))
        return min(around, key=lambda at: abs(math.log(self._works[at] / max(work, 1))))


@dataclass(slots=True)
class _Known:
    """What steps of a size took, at which step that was measured, and for how many it is not tried again."""

    seconds: float
    step: int
    rest: int
