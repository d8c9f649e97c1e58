"""How many prompt tokens to compute at a time, and how many layers of them in a step."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

DISPATCH_SECONDS = 0.25
"""How long one step may take, so that cancel, other work and the screen stay responsive."""

BESIDE = 1.9
"""How many times as long as without it a step may take that computes part of a prompt beside answers."""

MORE = 0.25
"""The share of what a step with the thinnest slice takes that may be added for what the slice computes."""

COMMON = 256
"""Chunks of as many tokens or more are powers of two, and end at multiples: their lengths come again."""

_STEPS_KEPT = 5
_RATES_KEPT = 3
_MEDIANS_KEPT = 40
_FIRST_PAGES = 8
_FIRST = 0.5
"""Of what would fill a step beside answers at the rate of prompts alone: the first slice."""
_UNDER, _OVER = 0.9, 1.05
"""Of what a step may take: between them the work stays what it is."""
_LEAST, _MOST = 0.3, 2.0
"""What work is multiplied by at a time."""
_CREEP = 1.1


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
        self._beside = BesideWork(page_size / layers)
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
                self._beside.took(work, seconds, alone)
        elif work >= min(self._page_size, 8):
            self._rates.append(work / seconds)

    def decoded(self, answers: int, seconds: float) -> None:
        """A step of so many answers, and nothing else, took `seconds`."""
        self._decode_seconds[answers].append(seconds)

    def _work(self, answers: int) -> float:
        """For the next step beside so many answers."""
        alone = self._alone(answers)
        if alone is None:
            return self._beside.work(0.0)
        return self._beside.work(_FIRST * (BESIDE - 1) * alone * self.rate)

    def _alone(self, answers: int) -> float | None:
        """What a step of so many answers takes, by the nearest number that was measured.

        The median of the latest: a step during which a request was taken in says nothing.
        """
        if not self._decode_seconds:
            return None
        nearest = min(self._decode_seconds, key=lambda known: abs(known - answers))
        return median(self._decode_seconds[nearest])


class BesideWork:
    """As much work as makes steps last as long as they may: more while they are shorter, less when longer.

    Looks at medians, since some steps compile or wait. That being there costs something whatever the work
    needs no model then, nor that tokens cost more behind a long history.
    """

    def __init__(self, fewest: float) -> None:
        """No step has less work than `fewest`."""
        self._fewest, self._work = fewest, 0.0
        self._latest = list[tuple[float, float]]()
        self._medians = deque[float](maxlen=_MEDIANS_KEPT)

    def work(self, first: float) -> float:
        """For the next step; `first` before any measurement."""
        return max(self._fewest, self._work or first)

    def took(self, work: float, seconds: float, alone: float) -> None:
        """A step with that work took `seconds`; without it takes `alone`."""
        self._latest.append((work, seconds))
        if len(self._latest) < _STEPS_KEPT:
            return
        done, took = (median(values) for values in zip(*self._latest, strict=True))
        self._latest.clear()
        self._medians.append(took)
        may = min(max(BESIDE * alone, (1 + MORE) * min(self._medians)), DISPATCH_SECONDS)
        share = (may - alone) / max(took - alone, 0.1 * may)  # of the work, if nothing else costs
        wanted = self._work or done
        if took > _OVER * may:
            self._work = max(share, _LEAST) * min(done, wanted)
        elif took < _UNDER * may:
            # Layers are whole: what was wanted may be more than what was done, and grows until it is done.
            self._work = min(max(share * done, _CREEP * wanted), _MOST * done)
        self._work = max(self._fewest, self._work or done)
