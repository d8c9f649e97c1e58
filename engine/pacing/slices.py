"""How much of a prompt's chunk goes into a step beside running answers, by what steps before took."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from engine.pacing.slice_costs import FEW, SliceCosts

DISPATCH_SECONDS = 0.25
"""How long one step may take, so that cancel, other work and the screen stay responsive."""

BESIDE = 1.9
"""How many times as long as without it a step may take that computes part of a prompt beside answers."""

MORE = 0.25
"""The share of what a step with the thinnest slice takes that may be added for what the slice computes."""

_SLOW = 1.2
"""How many times as long as it may a step with the thinnest slice takes, where all of MORE may be added;
up to there less of it, and nothing where the thinnest slice fits: gaps that it keeps short stay short."""

_FIRST = 0.85
"""Of what would fill a step at the rate of prompts alone: the first slice."""
_SURE = 10
"""Steps after which a size may be left for a smaller one, and FEW for a larger one: a host that is slow for a
moment makes every size look too large."""
_THIN_FRESH = 500
"""Steps for which what is known of the thinnest slice says something of now."""
_UNDER, _OVER = 0.9, 1.05
"""Of what a step may take: between them slices stay what they are."""
_HOPELESS = 2.5
"""Of what a step may take: a size is left at once, and no smaller one is tried to see whether it fits."""
_LEAST, _MOST = 0.5, 8.0
"""What a slice's work is multiplied by at a time."""
_RESTS = 50, 400
"""Steps after which a size that was too much is tried again: at first, and when it often was."""
_HELPS = 0.75
"""Of what a size adds to a step: a smaller one that adds more than that brings answers little."""
_AS_LONG, _BOLD = 0.9, 200
"""Of what a size added: a smaller one that adds more is left again, and for so many steps not tried."""
_APART = 2
"""How many times the work of one size another must be for a line through both to say something."""
_FIRST_LAYERS = 4
"""Of a short chunk, before it is known what a layer of few tokens costs."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of a slice: so many layers of a chunk of so many tokens."""

    tokens: int
    layers: int

    @property
    def work(self) -> int:
        """Tokens times layers."""
        return self.tokens * self.layers


@dataclass(frozen=True, slots=True)
class Pace:
    """How much of a prompt a second of steps computes, tokens times layers, in steps that are short enough.

    `fits`: whether there are any.
    """

    work: float
    fits: bool


class SliceSizer:
    """The most work, of some sizes, with which steps last no longer than they may: BESIDE times as long.

    Each size is judged by what it added to steps that had it, by their median, since some compile or wait.
    What a slice costs for being there, that a GPU computes many tokens in the time of a few, that tokens cost
    more behind a long history: none of it needs a model then. Only from one size to the next, where that one
    was not measured of late, a token is taken to cost what it costs in a prompt alone.

    Where a slice takes longer than it may however thin it is, the step may take up to `more` of what it takes
    anyway: thinner slices would hold answers up as long, and more often.
    """

    def __init__(self, sizes: Sequence[Size], more: float = MORE) -> None:
        """`sizes`: by their work; those of the most tokens, with one layer, with two and so on, come last."""
        self._sizes, self._more = sizes, more
        self._top = next(at for at, size in enumerate(sizes) if size.tokens == sizes[-1].tokens)
        self._at: int | None = None
        self._since = 0
        self._steps = 0
        self._costs = SliceCosts()
        self._thin = 0, 0.0
        self._short = deque[float](maxlen=FEW)
        self._short_layers = _FIRST_LAYERS
        self._tired = dict[int, _Tired]()
        self._left: _Left | None = None
        self._bold_until = 0
        self._places = dict[Size, int]()

    def next(self, alone: float, token: float) -> Size:
        """Of the next slice.

        Args:
            alone: seconds of a step of the answers without one; 0 where that is not known.
            token: seconds of a layer of a token in a prompt alone; 0 likewise.
        """
        first = self._first(alone, token)
        if self._at is not None and first > max(self._at, self._costs.thickest):
            self._at, self._since = first, 0  # prompts alone have proved quicker since
        return self._sizes[first if self._at is None else self._at]

    def most_layers(self, tokens: int) -> int:
        """Of a chunk of fewer tokens than `next` says: a layer costs something whatever is in it."""
        work = self._sizes[0 if self._at is None else self._at].work
        return max(1, min(self._short_layers, work // tokens))

    def took(self, size: Size, seconds: float, alone: float, token: float) -> None:
        """A step with a slice of that size took `seconds`; see `next`."""
        self._steps += 1
        if self._at is None:
            self._at = self._first(alone, token)
        if size.tokens < self._sizes[self._at].tokens:
            self._took_short(size, seconds - alone, alone)
            if size.layers > 1:
                return
        now = self._sizes[self._at]
        is_now = size.tokens == now.tokens and now.layers // 2 < size.layers <= now.layers
        at = self._at if is_now else self._nearest(size)  # layers are dealt evenly
        self._costs.add(at, self._steps, seconds - alone)
        self._since += at == self._at
        if self._since >= FEW and (added := self._costs.of_late(self._at, self._steps)) is not None:
            chosen = self._chosen(self._at, alone + added, alone, token)
            self._since = self._since if chosen == self._at else 0
            self._at = chosen

    def pace(self, alone: float, may: float) -> Pace | None:
        """How fast a prompt goes so in steps of about `may` seconds at most, by those of late; None: unknown.

        `alone`: as in `next`.
        """
        may *= _OVER
        known = {at: alone + added for at, added in self._costs.all_of_late(self._steps).items()}
        paces = [self._sizes[at].work / takes for at, takes in known.items() if takes <= may]
        if paces:
            return Pace(max(paces), fits=True)
        is_hopeless = 0 in known or min(known.values(), default=0.0) > _HOPELESS * may
        return Pace(0.0, fits=False) if is_hopeless else None

    def _first(self, alone: float, token: float) -> int:
        """Before anything is measured."""
        return self._below(_FIRST * (BESIDE - 1) * alone / token) if token else 0

    def _took_short(self, size: Size, added: float, alone: float) -> None:
        self._short.append(added / size.layers)
        fits = (self.may(alone) - alone) / max(median(self._short), 1e-9)
        self._short_layers = int(max(1, min(fits, 2 * size.layers)))

    def _chosen(self, at: int, takes: float, alone: float, token: float) -> int:
        """The size to go on with, after steps with that one took so long."""
        may = self.may(alone)
        left, self._left = self._left, None
        if left is not None and takes - alone > _AS_LONG * left.added:
            self._bold_until = self._steps + _BOLD
            self._tired.pop(left.at, None)
            return left.at
        if takes > _OVER * may:
            is_sure = self._since >= _SURE and self._steps >= self._bold_until
            if not is_sure and takes <= _HOPELESS * may:
                return at
            smaller = self._smaller(at, takes, may, alone, token)
            if smaller != at:
                tired = self._tired.get(at)
                rest = _RESTS[0] if tired is None else min(2 * tired.rest, _RESTS[1])
                self._tired[at] = _Tired(self._steps + rest, rest)
                self._left = _Left(at, takes - alone)
            return smaller
        self._tired.pop(at, None)
        return self._larger(at, takes, may, alone, token)

    def _smaller(self, at: int, takes: float, may: float, alone: float, token: float) -> int:
        """The largest below that is known to fit, or that should; half the work at least.

        None, where those that were ever measured have shown that smaller ones take about as long: then it is
        the machine that is slow.
        """
        least, typical = min(at - 1, self._below(_LEAST * self._sizes[at].work)), self._costs.typical(at)
        for other in range(at - 1, least, -1):
            known = self._costs.of_late(other, self._steps)
            if known is not None and alone + known <= may:
                return other
            if known is None and takes - self._between(other, at, takes - alone, token) <= may:
                return other
        for other in range(least, -1, -1):
            usual = self._costs.typical_below(other)
            if usual is None or typical is None or usual <= _HELPS * typical:
                return other
        return at

    def _larger(self, at: int, takes: float, may: float, alone: float, token: float) -> int:
        """The largest that should fit and is not tired; with room to spare the next, if no layer more."""
        found, work = at, self._sizes[at].work
        for other in range(at + 1, len(self._sizes)):
            if self._is_tired(other) or self._sizes[other].work > max(_MOST * work, self._sizes[at + 1].work):
                break
            if takes + self._between(at, other, takes - alone, token) <= may:
                found = other
        is_next_dear = at >= self._top or self._is_tired(at + 1)
        return at + 1 if found == at and takes <= _UNDER * may and not is_next_dear else found

    def _between(self, low: int, high: int, added: float, token: float) -> float:
        """Seconds by which a slice of size `high` should take longer; one of the two adds `added` to a step.

        Tokens by what they cost alone, layers by what they cost beside answers, at least what tokens do.
        """
        less, more = self._sizes[low], self._sizes[high]
        if less.layers == more.layers:
            return token * (more.work - less.work)
        tokens = token * (more.tokens - less.tokens)
        return tokens + max(token * more.tokens, added / max(1, less.layers)) * (more.layers - less.layers)

    def may(self, alone: float) -> float:
        """Seconds that a step may take."""
        usual, thinnest = min(BESIDE * alone, DISPATCH_SECONDS), alone + self._least()
        beyond = (thinnest / usual - 1) / (_SLOW - 1) if usual else 0.0
        more = self._more * min(1.0, max(0.0, beyond))
        return max(usual, (1 + more) * thinnest)

    def _least(self) -> float:
        """What a slice adds to a step however thin it is; 0 where nobody knows.

        On the line through the thinnest and the thickest size that were measured of late.
        """
        known = self._costs.all_of_late(self._steps)
        low, high = min(known, default=0), max(known, default=0)
        less, more = self._sizes[low].work, self._sizes[high].work
        if known and more >= _APART * less:
            slope = max(0.0, known[high] - known[low]) / (more - less)
            self._thin = self._steps, known[low] - slope * (less - self._sizes[0].work)
        elif 0 in known:
            self._thin = self._steps, known[0]
        step, added = self._thin
        added = min(added, *known.values(), math.inf)
        return added if self._steps - step <= _THIN_FRESH else 0.0

    def _is_tired(self, at: int) -> bool:
        """Whether that size was too much a short time ago."""
        tired = self._tired.get(at)
        return tired is not None and self._steps < tired.until

    def _below(self, work: float) -> int:
        """The largest size that is no more work, or the least."""
        return max((at for at, size in enumerate(self._sizes) if size.work <= work), default=0)

    def _nearest(self, size: Size) -> int:
        """The one that comes nearest to that size."""
        if size not in self._places:
            self._places[size] = min(
                range(len(self._sizes)),
                key=lambda at: abs(math.log(self._sizes[at].work / max(size.work, 1))),
            )
        return self._places[size]


@dataclass(frozen=True, slots=True)
class _Left:
    """A size that was too much, since it added so many seconds to a step."""

    at: int
    added: float


@dataclass(frozen=True, slots=True)
class _Tired:
    """A size that was too much: not before step `until`, `rest` steps from then, is it tried again."""

    until: int
    rest: int
