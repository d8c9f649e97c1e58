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
"""Of what a step may take: between them the work stays what it is."""
_LEAST = 0.3
"""What work is multiplied by at a time, at least."""
_FINER = 2
"""Sizes of slices from one to one of twice the work."""
_TRIED_AGAIN = 2000
"""Steps after which a size that was too much is tried again."""


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

    Work is counted in tokens: that of one token is all layers of it.
    """

    def __init__(self, most: int, page_size: int, layers: int) -> None:
        """`most` tokens of a model of so many `layers`; chunks are whole pages where possible."""
        self._most, self._page_size, self._layers = most, page_size, layers
        self._rates = deque[float](maxlen=_RATES_KEPT)
        self._beside = BesideWork(self._sizes())
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
        size = self._whole(alone)
        if size >= COMMON:
            return min(remaining, size if remaining <= size else size - begin % size)
        return max(1, min(size, remaining))

    def layers(self, tokens: int, left: int, answers: int = 0) -> int:
        """Of the layers that are left of a chunk, those that the next step computes, 1 … left."""
        if not answers:
            return left
        most = max(1, min(left, int(self._layers * self._work(answers) / tokens)))
        return -(-left // -(-left // most))  # the same in each of the steps it takes

    def filled(self, work: float, seconds: float, answers: int = 0) -> None:
        """A step with that work on a prompt beside so many answers took `seconds`."""
        if seconds <= 0:
            return
        if answers:
            if alone := self._alone(answers):
                self._beside.took(work, seconds, answers, alone)
        elif work >= min(self._page_size, 8):
            self._rates.append(work / seconds)

    def decoded(self, answers: int, seconds: float) -> None:
        """A step of so many answers, and nothing else, took `seconds`."""
        self._decode_seconds[answers].append(seconds)

    def _whole(self, tokens: int) -> int:
        """At most so many tokens that a chunk may have: a power of two from COMMON on, else whole pages."""
        size = min(tokens, self._most)
        if size >= COMMON:
            return 1 << (size.bit_length() - 1)
        return size - size % self._page_size if size > self._page_size else size

    def _sizes(self) -> list[float]:
        """The work of slices to choose from, ascending: a layer of ever more tokens, then more layers."""
        least, most = min(self._page_size, self._most), self._whole(self._most)
        asked = (least * 2 ** (step / _FINER) for step in count())
        chosen = takewhile(lambda work: work <= most * self._layers, asked)
        tokens = [(self._whole(int(work + 0.5)), work) for work in chosen]
        return sorted({size * max(1, int(work / size)) / self._layers for size, work in tokens} | {most})

    def _work(self, answers: int) -> float:
        """For the next step beside so many answers."""
        alone = self._alone(answers)
        return self._beside.work(0.0 if alone is None else _FIRST * (BESIDE - 1) * alone * self.rate)

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

    Each size is judged by steps that had it, by their median, since some compile or wait: what being there
    costs whatever the work, that a GPU does more work in the same time, that tokens cost more behind a long
    history, none of it needs a model then.
    """

    def __init__(self, sizes: Sequence[float]) -> None:
        """`sizes`: ascending."""
        self._sizes = sizes
        self._at: int | None = None
        self._answers, self._steps = 0, 0
        self._latest = defaultdict[int, list[float]](list)
        self._known = dict[int, _Known]()

    def work(self, first: float) -> float:
        """For the next step; about `first` before any measurement."""
        return self._sizes[self._index(first) if self._at is None else self._at]

    def took(self, work: float, seconds: float, answers: int, alone: float) -> None:
        """A step with that work beside so many answers took `seconds`; without it takes `alone`."""
        if answers != self._answers:
            self._latest.clear()
            self._known.clear()
        self._answers, self._steps = answers, self._steps + 1
        size = self._nearest(work)
        self._at = size if self._at is None else self._at
        if self._at > size and work * 2 > self._sizes[self._at]:
            size = self._at  # layers are whole, and come out even
        latest = self._latest[size]
        latest.append(seconds)
        if len(latest) < _STEPS_KEPT:
            return
        self._known[size] = _Known(median(latest), self._steps)
        latest.clear()
        if size == self._at:
            self._at = self._chosen(size, alone)

    def _chosen(self, size: int, alone: float) -> int:
        """The size to go on with, after `size` was measured."""
        thinner = [known.seconds for at, known in self._known.items() if at < size or size == 0]
        least = min(thinner, default=0.0)
        may = min(max(BESIDE * alone, (1 + MORE) * least), DISPATCH_SECONDS)
        took = self._known[size].seconds
        if took > _OVER * may and size:
            share = (may - alone) / max(took - alone, 0.1 * may)  # of the work, if nothing else costs
            return min(self._index(max(share, _LEAST) * self._sizes[size]), size - 1)
        if took > _UNDER * may or size + 1 == len(self._sizes):
            return size
        above = {at: known for at, known in self._known.items() if at > size}
        if fitting := [at for at, known in above.items() if known.seconds <= may]:
            return max(fitting)
        tried = above.get(size + 1)
        return size if tried is not None and self._steps - tried.step < _TRIED_AGAIN else size + 1

    def _index(self, work: float) -> int:
        """Of the largest size that is no more work, or of the least."""
        return max(0, bisect_right(self._sizes, work) - 1)

    def _nearest(self, work: float) -> int:
        below = self._index(work)
        around = self._sizes[below : below + 2]
        return below + min(range(len(around)), key=lambda at: abs(math.log(around[at] / work)))


@dataclass(frozen=True, slots=True)
class _Known:
    """What steps of a size took, and at which step that was measured."""

    seconds: float
    step: int
