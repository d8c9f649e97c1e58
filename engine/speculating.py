"""Speculation of the answer that runs alone: its drafter, what it has brought, and what to check next."""

from __future__ import annotations

from collections.abc import Sequence as Many

from engine.request import Sequence
from engine.speculation.draft import MOST_DRAFTED, Draft
from engine.speculation.gain import SpeculationGain, StepCosts
from engine.speculation.lookup import PromptLookup
from engine.speculation.verify import Verdict

_CATCH_UP = 64
"""Tokens of a long prompt that the drafter takes in with each token of the answer, so that none waits."""


class Speculations:
    """Guesses for whoever runs alone: a batch keeps the machine busy anyway."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._costs = StepCosts()
        self._of: dict[Sequence, Speculation] = {}

    def guess(self, running: Many[Sequence]) -> None:
        """Set what the only running answer is to check in its next step, if anything."""
        if not self._is_on or len(running) != 1 or not running[0].generated:
            return
        sequence = running[0]
        if sequence not in self._of:
            self._of[sequence] = Speculation(sequence, self._costs)
        draft = self._of[sequence].draft()
        sequence.wants_draft = draft is not None and sequence.is_in_flight
        sequence.draft = None if sequence.is_in_flight else draft

    def stepped(self, sequence: Sequence, tokens: int, seconds: float) -> None:
        """A step of `tokens` of this answer alone took `seconds`."""
        if sequence in self._of:
            self._of[sequence].stepped(tokens, seconds)

    def checked(self, sequence: Sequence, draft: Draft, verdict: Verdict) -> None:
        """What came of a draft."""
        if sequence in self._of:
            self._of[sequence].checked(draft, verdict)

    def ended(self, sequence: Sequence) -> None:
        """It asks for no more."""
        self._of.pop(sequence, None)


class Speculation:
    """Guesses of one answer."""

    def __init__(self, sequence: Sequence, costs: StepCosts) -> None:
        """`costs`: what steps of the model cost, shared by its answers."""
        self._sequence = sequence
        self._lookup = PromptLookup()
        self._gain = SpeculationGain(costs)

    def catch_up(self, most: int = _CATCH_UP) -> bool:
        """Take in at most so many tokens of prompt and answer. Returns whether all are known."""
        begin, end = len(self._lookup), self._sequence.length
        self._lookup.add(self._sequence.tokens(begin, min(end, begin + most)))
        return end <= begin + most

    def draft(self) -> Draft | None:
        """What to check in the next step; None to decode plainly."""
        if not self.catch_up():
            return None
        sequence = self._sequence
        most = min(MOST_DRAFTED, sequence.request.most_tokens - len(sequence.generated) - 1)
        found = self._lookup.draft(most)
        best = self._gain.best(len(found.tokens), found.match) if found.tokens else 0
        return found.cut(best) if best else None

    def stepped(self, tokens: int, seconds: float) -> None:
        """A step of `tokens` of this answer alone took `seconds`."""
        self._gain.stepped(tokens, seconds)

    def checked(self, draft: Draft, verdict: Verdict) -> None:
        """What came of a draft."""
        self._gain.accepted(len(draft.tokens), verdict.accepted, draft.match)
