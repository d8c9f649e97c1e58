"""What steps cost by how many tokens they have, and what it costs not to send the next one ahead."""

from __future__ import annotations

import math
import statistics
from collections import deque

_SLOPE = 0.1  # of a step's cost for each token more, before any was measured
_WAIT = 0.5  # plain steps that a wait costs, before any was measured
_STEPS_KEPT = 5  # of each kind
_INCREDIBLE = 10.0  # times what as many plain steps take: more than a step costs where nothing is compiled
_DEAREST = 4.0  # plain steps that a first step is charged with at most
_STALE = 512  # steps after which a cost that was not met again is forgotten


class StepCosts:
    """What steps cost, relative to plain ones: those of one token that follow each other undisturbed.

    By the median of the latest of each kind. One for each model; it outlives requests.
    """

    def __init__(self) -> None:
        self._latest: dict[int, deque[float]] = {}  # by tokens; empty where only a first step was seen
        self._first: dict[int, float] = {}  # what that took
        self._held, self._lone = deque[float](maxlen=_STEPS_KEPT), deque[float](maxlen=_STEPS_KEPT)
        self._doubted = set[int]()  # counts with an incredible step, until another one
        self._seconds: dict[int, float] = {}  # what was worked out since the last step of that count
        self._relative: dict[int, float] = {}  # and since the last step of any
        self._steps = 0
        self._met_at: dict[int, int] = {}

    def stepped(self, tokens: int, seconds: float) -> None:
        """A step of `tokens` took `seconds`, from the end of the one before it: drafting included.

        The first of a count is not believed: kernels are compiled and graphs traced there. Nor is one with a
        draft that took much longer than can be: somebody else in the process compiled, and all waited.
        """
        self._steps += 1
        if self._steps % _STALE == 0:
            self._forget()
        self._met_at[tokens] = self._steps
        latest = self._latest.get(tokens)
        if latest is None:
            self._latest[tokens] = deque(maxlen=_STEPS_KEPT)
            self._first[tokens] = seconds
        elif tokens == 1 or not self._is_incredible(tokens, seconds):
            latest.append(seconds)
            self._seconds.pop(tokens, None)
        self._relative.clear()

    def held(self, seconds: float) -> None:
        """A step of one token took `seconds`, behind which none was sent until it was read."""
        self._held.append(seconds)

    def lone(self, seconds: float) -> None:
        """A step of one token took `seconds` that was sent when the one before it had been read."""
        self._lone.append(seconds)

    @property
    def has_baseline(self) -> bool:
        """Whether plain steps were measured."""
        return bool(self._latest.get(1))

    @property
    def plain_seconds(self) -> float:
        """What plain steps take; infinite before any was measured."""
        return self._median(1) if self.has_baseline else math.inf

    @property
    def plain_age(self) -> int:
        """Steps since one was plain."""
        return self._steps - self._met_at.get(1, 0)

    def relative(self, tokens: int) -> float:
        """The cost of a step of `tokens` in plain steps: measured, or on a line through what was measured.

        At least 1: where more tokens seem to take less, that is noise, and no reason to draft.
        Raises ValueError when no plain step was measured.
        """
        if tokens not in self._relative:
            if not self.has_baseline:
                raise ValueError("no step of one token was measured")
            self._relative[tokens] = max(1.0, self._interpolated(tokens) / self._median(1))
        return self._relative[tokens]

    def charged(self, tokens: int) -> float:
        """As `relative`, for a step that is over: where it was the first of `tokens`, what that one took."""
        cost = self.relative(tokens)
        if self._latest.get(tokens) or tokens not in self._first:
            return cost
        return max(cost, min(self._first[tokens] / self._median(1), _DEAREST))

    def hoped(self, tokens: int) -> float:
        """As `relative`; but where only steps of more tokens were measured, what one of fewer costs.

        So a length is tried that may be the last before a jump. Raises ValueError as `relative` does.
        """
        counts = [count for count, latest in self._latest.items() if latest]
        if tokens in counts or tokens > max(counts, default=0):
            return self.relative(tokens)
        return self.relative(max((count for count in counts if count < tokens), default=1))

    def wait(self) -> float:
        """What it costs in plain steps to hold one back, whether a draft follows or not.

        That is what the last step before the pause and the first after it take more than two plain ones: no
        more than one, as host and device only take turns then. A slow moment must not end waits for good.
        """
        if not self.has_baseline or not self._held or not self._lone:
            return _WAIT
        both = statistics.median(self._held) + statistics.median(self._lone)
        return min(max(0.0, both / self._median(1) - 2), 1.0)

    def _is_incredible(self, tokens: int, seconds: float) -> bool:
        """Twice in a row nothing is."""
        is_odd = self.has_baseline and seconds > _INCREDIBLE * tokens * self._median(1)
        if is_odd and tokens not in self._doubted:
            self._doubted.add(tokens)
            return True
        self._doubted.discard(tokens)
        return False

    def _median(self, tokens: int) -> float:
        if tokens not in self._seconds:
            self._seconds[tokens] = statistics.median(self._latest[tokens])
        return self._seconds[tokens]

    def _forget(self) -> None:
        """One slow step must not keep its count from being tried for good."""
        for tokens, met_at in self._met_at.items():
            if self._steps - met_at >= _STALE:
                self._latest[tokens].clear()
                self._seconds.pop(tokens, None)
                self._relative.clear()

    def _interpolated(self, tokens: int) -> float:
        if self._latest.get(tokens):
            return self._median(tokens)
        counts = [count for count, latest in self._latest.items() if latest]
        below = sorted(count for count in counts if count < tokens)
        above = min((count for count in counts if count > tokens), default=None)
        last = self._median(below[-1])
        if above is not None:
            slope = (self._median(above) - last) / (above - below[-1])
        elif len(below) > 2:  # the step from one token to two tells little of those after it
            slope = max(0.0, (last - self._median(below[-2])) / (below[-1] - below[-2]))
        else:
            slope = _SLOPE * self._median(1)
        return last + slope * (tokens - below[-1])
