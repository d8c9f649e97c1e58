"""Whether to check what was looked up: how often such text was right, and what checking costs here.

How often is known without trying: what the past foretells of a plain step's token is compared with it too. So
text that does not copy is never drafted to find that out. A step with k drafted tokens yields
1 + p1 + p1·p2 + … tokens, where each p is how often a token was foretold rightly after a run of that length:
runs get longer as a draft goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import accumulate
from math import prod
from operator import mul

from engine.speculation.costs import StepCosts
from engine.speculation.draft import LENGTHS, MOST_DRAFTED
from engine.speculation.lookup import LONGEST
from engine.speculation.purse import Purse

Lengths = Callable[[], Collection[int]]
"""Lengths that a draft may have now."""

_KINDS = tuple(max(0, min(match, LONGEST).bit_length() - 2) for match in range(LONGEST + MOST_DRAFTED + 2))
"""By how many tokens match: 2 or 3, from 4 on, from 8 on, LONGEST and more."""

_PAUSES = (32, 16, 8, 8)  # by kind, how often a decision against waiting holds

_FIRST = (0.4, 0.6, 0.75, 0.85)
"""How often what is foretold is right, by kind, before there is any evidence.

Measured in 12,000 tokens each: 0.31, 0.55, 0.72, 0.94 in this project's documents, and 0.59, 0.77, 0.77, 0.84
in its code.
"""
_FIRST_WEIGHT = 3  # tokens that this counts as
_REMEMBERED = 24  # tokens that count
_LEAST = 0.25  # below which nothing is worked out
_WORTHWHILE = 1.05  # times the speed of plain steps from which on a draft is checked
_WORTH_WAITING = 0.1  # plain steps that a wait must bring
_SURELY = 0.75  # chance at most that is reckoned with for another draft
_FIRST_PURSE = 1.0
_BASELINE_EVERY = 256  # steps after which plain ones are measured again


class CopyGain:
    """Decides for one sequence how many of the tokens that were looked up to check in the next step."""

    def __init__(self, costs: StepCosts) -> None:
        """`costs`: what steps cost, shared with other sequences of the model."""
        self._costs = costs
        self._rates = list(_FIRST)
        self._weights = [_FIRST_WEIGHT] * len(_FIRST)
        self._purse = Purse(_FIRST_PURSE)
        self._plain = 0  # steps that the purse does not know of
        self._pauses = [0] * len(_FIRST)

    def foretold(self, match: int, is_right: bool) -> None:
        """A token came that was foretold after a run of `match` tokens."""
        kind = _KINDS[match] if match < LONGEST else -1
        weight = self._weights[kind]
        if weight < _REMEMBERED:
            weight = self._weights[kind] = weight + 1
        self._rates[kind] += (is_right - self._rates[kind]) / weight

    def stepped(self, steps: int) -> None:
        """So many plain steps are over."""
        self._plain += steps

    def waited(self) -> None:
        """A step was held back until the one before it was read."""
        self._purse.balance(-self._costs.wait())

    def checked(self, drafted: int, accepted: int) -> None:
        """A step with a draft is over: of `drafted` tokens the first `accepted` were right."""
        self._purse.earn(1 + accepted)
        if self._costs.has_baseline:
            self._purse.balance(1 + accepted - self._costs.charged(1 + drafted))

    def best(self, match: int, most: int, lengths: Lengths) -> int:
        """How many of at most `most` tokens to check, foretold by `match`; 0 to decode plainly."""
        match = min(match, LONGEST)
        if not self._is_measured or not self._may_pay(_KINDS[match]):
            return 0
        return self._best(match, most, lengths, 0.0)[0]

    def is_worth_waiting(self, match: int, most: int, lengths: Lengths) -> bool:
        """Whether to hold the next step back until the token in flight is known, foretold by `match`.

        Where it comes as foretold, a draft goes on from there. Where it does not, the wait was for nothing.
        """
        match = min(match, LONGEST)
        kind = _KINDS[match]
        if self._pauses[kind]:
            self._pauses[kind] -= 1
            return False
        if not self._is_measured:
            return False
        if self._may_pay(kind):
            wait = self._costs.wait()
            drafted, won = self._best(match + 1, most, lengths, wait)
            if self._rates[kind] * won * self._drafts(match + 1, drafted) > wait + _WORTH_WAITING:
                return True
        self._pauses[kind] = _PAUSES[kind]
        return False

    @property
    def _is_measured(self) -> bool:
        """Whether it is known what plain steps cost; now and then they are measured again."""
        return self._costs.has_baseline and self._costs.plain_age < _BASELINE_EVERY

    def _drafts(self, match: int, drafted: int) -> float:
        """How many of `drafted` tokens follow each other: after one that was right comes the next."""
        right = prod(self._rates[kind] for kind in _KINDS[match : match + drafted])
        return 1 / (1 - min(right, _SURELY))

    def _may_pay(self, kind: int) -> bool:
        self._purse.earn(self._plain)
        self._plain = 0
        return self._rates[kind] >= _LEAST and self._purse.left > 0

    def _best(self, match: int, most: int, lengths: Lengths, wait: float) -> tuple[int, float]:
        """The draft with which decoding is fastest, and the plain steps that it wins; 0 where none does."""
        rates = [self._rates[kind] for kind in _KINDS[match : match + MOST_DRAFTED]]
        yields = list(accumulate(accumulate(rates, mul), initial=1.0))  # of a step, by how many are drafted
        wrong, costs, paying = 1 - rates[0], self._costs, list[tuple[float, int, float]]()
        for drafted in LENGTHS:
            cost = costs.hoped(1 + drafted)
            speed = yields[drafted] / cost
            if drafted <= most and speed > _WORTHWHILE and wrong * (cost - 1) + wait <= self._purse.left:
                paying.append((speed, drafted, yields[drafted] - cost))
        if not paying:
            return 0, 0.0
        offered = lengths()
        _, best, won = max((draft for draft in paying if draft[1] in offered), default=(0.0, 0, 0.0))
        return best, won
