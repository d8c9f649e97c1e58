"""How many tokens a model is to draft: what drafts have brought, what steps cost, and what may be lost.

A step with k drafted tokens yields 1 + p1 + p1·p2 + … tokens, where pi is how often the i-th is accepted
after those before it were, and costs what steps of 1 + k tokens cost. Time that speculation loses is drawn
from an allowance that grows with the answer, so that text that never matches is slowed by a known share at
most.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.speculation.costs import StepCosts
from engine.speculation.draft import LENGTHS, MOST_DRAFTED
from engine.speculation.purse import Purse

_REMEMBERED = 0.88  # share of the old evidence that a new observation leaves
_REMEMBERED_UNTRIED = 0.97  # of a place that was not tried: it is worth another try one day
_REMEMBERED_ON_SURPRISE = 0.25  # when a probe succeeds
_FIRST_GUESS = 0.5  # acceptance before there is any evidence
_WORTHWHILE = 1.03  # gain below which decoding goes on plainly
_WORTH_READING = 1.15  # gain below which reading for drafts is a loss: it comes back slowly
_FIRST_PURSE = 2.0
_PROBE_COST = 0.45  # plain steps that one probe may cost more
_PROBE_TOKENS = 4
_LONGEST_PAUSE = 64  # steps between probes
_BASELINE_EVERY = 128  # steps with drafts between those that measure a plain step again


class _Evidence:
    """How often the i-th drafted token was accepted after those before it were; old evidence fades.

    Attributes:
        probe_at: the step from which on it may be tried again where it does not pay.
        pause: steps that the next failure keeps it from being tried.
    """

    def __init__(self) -> None:
        self.probe_at = 0
        self.pause = 1
        self._tried = [0.0] * MOST_DRAFTED
        self._taken = [0.0] * MOST_DRAFTED
        self._expected: list[float] | None = None

    def add(self, drafted: int, accepted: int) -> None:
        """Of `drafted` tokens the first `accepted` were right."""
        self._expected = None
        for place in range(min(drafted, accepted + 1)):
            self._tried[place] = self._tried[place] * _REMEMBERED + 1
            self._taken[place] = self._taken[place] * _REMEMBERED + (place < accepted)
        for place in range(drafted, MOST_DRAFTED):
            self._tried[place] *= _REMEMBERED_UNTRIED
            self._taken[place] *= _REMEMBERED_UNTRIED

    def fade(self, share: float) -> None:
        """Leave `share` of the evidence."""
        self._expected = None
        self._tried = [share * tried for tried in self._tried]
        self._taken = [share * taken for taken in self._taken]

    def expected(self) -> list[float]:
        """Tokens that a step yields with 1, 2, … drafted. A place without evidence is like the one before.

        A guess weighs as much as an observation where there is none, and less the more there are: what is
        never right is known as such.
        """
        if self._expected is None:
            self._expected = self._work_out()
        return self._expected

    def _work_out(self) -> list[float]:
        expected, total, reach, guess = list[float](), 1.0, 1.0, _FIRST_GUESS
        for tried, taken in zip(self._tried, self._taken, strict=True):
            weight = 1 - (1 - _REMEMBERED) * tried  # 0 where there is all the evidence that ever counts
            guess = (taken + weight * guess) / (tried + weight)
            reach *= guess
            total += reach
            expected.append(total)
        return expected


class SpeculationGain:
    """Decides how many tokens to draft in the next step, where drafts are not free.

    For a model's answers, one after the other: what drafts brought in one is what they are expected to bring
    in the next, and what may be lost is lost by all of them together.
    """

    def __init__(self, costs: StepCosts | None = None) -> None:
        """`costs`: what steps cost, where that is known; from nothing on when None."""
        self._costs = StepCosts() if costs is None else costs
        self._evidence = _Evidence()
        self._purse = Purse(_FIRST_PURSE)
        self._steps = 0
        self._since_plain = 0  # steps with drafts since a plain one was measured
        self._last_step = 0  # its tokens
        self._probing = self._declines = False
        self._pays_well = True

    @property
    def declines(self) -> bool:
        """Whether there is nothing to draft, as it was asked last, or as it is clear by now."""
        return self._declines or self.is_out_of_question

    @property
    def is_out_of_question(self) -> bool:
        """Whether there is no draft now, of whatever length; quickly answered."""
        if self._purse.left < 0:
            return True
        return self._steps < self._evidence.probe_at and self._evidence.expected()[-1] < _WORTHWHILE

    @property
    def may_read(self) -> bool:
        """Whether a draft model may read what it has to know for a draft.

        Where drafts are believed to pay well that is well spent; else it is lost, as far as may be.
        """
        return self._pays_well or self._purse.left > 0

    def began(self) -> None:
        """Another answer begins: it is soon seen whether drafts pay for it, and what others won stays won."""
        self._last_step = 0
        self._purse.left = min(self._purse.left, _FIRST_PURSE)
        self._evidence.pause, self._evidence.probe_at = 1, self._steps

    def has_read(self, seconds: float) -> None:
        """A draft model has read so long, for a draft."""
        if not self._pays_well and self._costs.has_baseline:
            self._purse.balance(-seconds / self._costs.plain_seconds)

    def stepped(self, tokens: int, seconds: float, steps: int = 1) -> None:
        """`steps` of `tokens`, the drafted ones included, took `seconds` each, drafting included.

        A plain step is measured only after another: a lone one is not overlapped with its neighbours.
        """
        if tokens > 1 or self._last_step == 1:
            self._costs.stepped(tokens, seconds)
            self._since_plain = self._since_plain + 1 if tokens > 1 else 0
        self._last_step = tokens
        self._steps += steps
        if tokens == 1:
            self._purse.earn(steps)

    def accepted(self, drafted: int, accepted: int) -> None:
        """Of `drafted` tokens the first `accepted` were right.

        Raises ValueError for more than were drafted, or more than MOST_DRAFTED.
        """
        if not 0 <= accepted <= drafted <= MOST_DRAFTED:
            raise ValueError(f"{accepted} of {drafted} drafted tokens cannot have been accepted")
        if not drafted:
            return
        if self._costs.has_baseline:
            self._purse.earn(1 + accepted)
            self._purse.balance(1 + accepted - self._costs.relative(1 + drafted))
        evidence = self._evidence
        if self._probing and accepted:
            evidence.fade(_REMEMBERED_ON_SURPRISE)
        evidence.add(drafted, accepted)
        if accepted:
            evidence.pause = 1
        else:
            evidence.probe_at = self._steps + evidence.pause
            evidence.pause = min(2 * evidence.pause, _LONGEST_PAUSE)

    def best(self, most: int, lengths: Collection[int] = LENGTHS) -> int:
        """How many of at most `most` tokens to draft now, one of `lengths`; 0 to decode plainly."""
        best = self._best(most, lengths)
        self._declines = not best
        return best

    def _best(self, most: int, lengths: Collection[int]) -> int:
        if not self._costs.has_baseline or self._since_plain >= _BASELINE_EVERY:
            return 0
        if self.is_out_of_question:
            return 0  # a step with a draft costs one without it at least
        offered = [k for k in lengths if k <= most]
        evidence = self._evidence
        expected = evidence.expected()
        affordable = [k for k in offered if self._loss(k) <= self._purse.left]
        gains = ((expected[k - 1] / self._costs.relative(1 + k), k) for k in affordable)
        gain, best = max(gains, default=(0.0, 0))
        self._probing, self._pays_well = gain < _WORTHWHILE, gain >= _WORTH_READING
        if not self._probing:
            return best
        return self._probe(offered) if offered and self._steps >= evidence.probe_at else 0

    def _probe(self, offered: Collection[int]) -> int:
        """Tokens to draft where it does not seem to pay, to see whether it does by now; mostly 0."""
        bearable = max(_PROBE_COST, 1.1 * self._loss(1))
        cheap = [k for k in offered if k <= _PROBE_TOKENS and self._loss(k) <= bearable]
        tokens = max(cheap, default=min(offered))
        return tokens if self._loss(tokens) <= self._purse.left else 0

    def _loss(self, drafted: int) -> float:
        """Plain steps lost when nothing of `drafted` tokens is accepted."""
        return self._costs.relative(1 + drafted) - 1
