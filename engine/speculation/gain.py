"""How many tokens to draft: what drafts have brought, what steps have cost, and what may be lost on trying.

A step with k drafted tokens yields 1 + p1 + p1·p2 + … tokens, where pi is how often the i-th is accepted
after those before it were, and costs what steps of 1 + k tokens cost. Time that speculation loses is drawn
from an allowance that grows with the answer, so that text that never matches is slowed by a known share at
most.
"""

from __future__ import annotations

import statistics
from collections import deque

from engine.speculation.draft import MOST_DRAFTED

_REMEMBERED = 0.88  # share of the old evidence that a new observation leaves
_FIRST_GUESS = 0.5  # acceptance before there is any evidence
_GUESS_WEIGHT = 1.0  # observations that a guess counts as
_WORTHWHILE = 1.03  # gain below which decoding goes on plainly
_SLOPE = 0.1  # of a step's cost for each token more, before any was measured
_SHARE = 0.008  # of the answer's time may be lost
_PURSE = 6.0  # plain steps that may be lost at once
_PROBE_COST = 0.45  # plain steps that one probe may cost more
_PROBE_TOKENS = 4
_LONGEST_PAUSE = 64  # plain steps between probes
_BASELINE_EVERY = 64  # steps with drafts between two without, that a plain step's cost is known


class StepCosts:
    """What a step costs by its tokens, relative to a step of one: the median of the latest, per count.

    One for each model and kind of step; it outlives requests.
    """

    def __init__(self) -> None:
        self._seconds: dict[int, deque[float]] = {}
        self._met = set[int]()

    def stepped(self, tokens: int, seconds: float) -> None:
        """A step of `tokens` took `seconds`, drafting included.

        The first of a count is not believed: kernels are compiled and graphs traced there.
        """
        if tokens not in self._met:
            self._met.add(tokens)
            return
        self._seconds.setdefault(tokens, deque(maxlen=9)).append(seconds)

    @property
    def has_baseline(self) -> bool:
        """Whether steps of one token were measured."""
        return 1 in self._seconds

    def relative(self, tokens: int) -> float:
        """The cost of a step of `tokens` in steps of one: measured, or on a line through what was measured.

        Where a single token was not measured, a guess.
        """
        known = {count: statistics.median(times) for count, times in self._seconds.items()}
        one = known.get(1)
        if one is None or one <= 0:
            return 1 + _SLOPE * (tokens - 1)
        costs = {count: seconds / one for count, seconds in sorted(known.items())}
        if tokens in costs:
            return costs[tokens]
        below = max(count for count in costs if count < tokens)
        above = min((count for count in costs if count > tokens), default=None)
        if above is None:
            slope = (costs[below] - 1) / (below - 1) if below > 1 else _SLOPE
            return costs[below] + max(slope, 0.0) * (tokens - below)
        share = (tokens - below) / (above - below)
        return costs[below] + share * (costs[above] - costs[below])


class SpeculationGain:
    """Decides for one sequence how many tokens to draft in the next step."""

    def __init__(self, costs: StepCosts | None = None) -> None:
        """
        Args:
            costs: what steps cost, shared with other sequences of the model; its own when None.
        """
        self._costs = StepCosts() if costs is None else costs
        self._tried = [0.0] * MOST_DRAFTED
        self._taken = [0.0] * MOST_DRAFTED
        self._purse = _PURSE  # plain steps that may be lost now
        self._pause = 0  # plain steps until the next probe
        self._pause_after_failure = 1
        self._since_plain = 0  # steps with drafts

    def stepped(self, tokens: int, seconds: float) -> None:
        """A step of `tokens`, the drafted ones included, took `seconds`, drafting included."""
        self._costs.stepped(tokens, seconds)
        self._since_plain += 1
        if tokens == 1:
            self._since_plain = 0
            self._pause = max(0, self._pause - 1)
            self._earn(_SHARE)

    def accepted(self, drafted: int, accepted: int) -> None:
        """Of `drafted` tokens the first `accepted` were right.

        Raises ValueError for more than were drafted, or more than MOST_DRAFTED.
        """
        if not 0 <= accepted <= drafted <= MOST_DRAFTED:
            raise ValueError(f"{accepted} of {drafted} drafted tokens cannot have been accepted")
        if not drafted:
            return
        self._earn((1 + accepted) * (1 + _SHARE) - self._costs.relative(1 + drafted))
        for place in range(min(drafted, accepted + 1)):
            self._tried[place] = self._tried[place] * _REMEMBERED + 1
            self._taken[place] = self._taken[place] * _REMEMBERED + (place < accepted)
        if accepted:
            self._pause, self._pause_after_failure = 0, 1
        else:
            self._pause = self._pause_after_failure
            self._pause_after_failure = min(2 * self._pause_after_failure, _LONGEST_PAUSE)

    def best(self, most: int) -> int:
        """How many of at most `most` tokens to draft now; 0 to decode plainly."""
        if not self._costs.has_baseline or self._since_plain >= _BASELINE_EVERY:
            return 0
        most = min(most, MOST_DRAFTED)
        affordable = [k for k in range(1, most + 1) if self._loss(k) <= self._purse]
        if not affordable:
            return 0
        gains = self._gains(affordable[-1])
        best = max(affordable, key=lambda k: gains[k - 1])
        if gains[best - 1] >= _WORTHWHILE:
            return best
        return 0 if self._pause else self._probe(affordable)

    def _probe(self, affordable: list[int]) -> int:
        """Tokens to draft where it does not seem to pay, to see whether it does by now."""
        cheap = [k for k in affordable if k <= _PROBE_TOKENS and self._loss(k) <= _PROBE_COST]
        return cheap[-1] if cheap else affordable[0]

    def _gains(self, most: int) -> list[float]:
        """Tokens per time with 1 … `most` drafted tokens, relative to plain decoding."""
        gains, expected, reach, guess = list[float](), 1.0, 1.0, _FIRST_GUESS
        for place in range(most):
            evidence = self._tried[place] + _GUESS_WEIGHT
            guess = (self._taken[place] + _GUESS_WEIGHT * guess) / evidence
            reach *= guess
            expected += reach
            gains.append(expected / self._costs.relative(place + 2))
        return gains

    def _loss(self, drafted: int) -> float:
        """Plain steps lost when nothing of `drafted` tokens is accepted."""
        return self._costs.relative(1 + drafted) - 1

    def _earn(self, steps: float) -> None:
        self._purse = min(self._purse + steps, _PURSE)
