"""Speculation of the answer that runs alone: its drafter, what it has brought, and what to check next."""

from __future__ import annotations

from collections.abc import Sequence as Many

from engine.kv.pager import OutOfPages
from engine.request import Sequence
from engine.speculation.draft import LENGTHS, MOST_DRAFTED, Draft
from engine.speculation.gain import SpeculationGain, StepCosts
from engine.speculation.lookup import PromptLookup
from engine.speculation.model_drafter import DraftModel, ModelDrafter
from engine.speculation.verify import Verdict
from engine.warm_up import IsWarm

_CATCH_UP = 64
"""Tokens of a long prompt that the drafter takes in with each token of the answer, so that none waits."""


class Speculations:
    """Guesses for whoever runs alone: a batch keeps the machine busy anyway."""

    def __init__(self, *, is_on: bool, is_warm: IsWarm, model: DraftModel | None = None) -> None:
        """`model`: guesses where the text does not repeat; None for no such guesses."""
        self._is_on, self._is_warm = is_on, is_warm
        self._model = model
        self._costs = Costs()
        self._of: dict[Sequence, Speculation] = {}

    def guess(self, running: Many[Sequence]) -> None:
        """Set what the only running answer is to check in its next step, if anything."""
        if not self._is_on or len(running) != 1 or not running[0].generated:
            return
        sequence = running[0]
        if sequence not in self._of:
            drafter = ModelDrafter(self._model) if self._model else None
            self._of[sequence] = Speculation(sequence, self._costs, drafter, self._is_warm)
        speculation = self._of[sequence]
        sequence.wants_draft = sequence.is_in_flight and speculation.is_promising()
        sequence.draft = None if sequence.is_in_flight else speculation.draft()

    def stepped(self, sequence: Sequence, draft: Draft | None, seconds: float) -> None:
        """A step of this answer alone took `seconds`, drafting included."""
        if sequence in self._of:
            self._of[sequence].stepped(draft, seconds)

    def checked(self, sequence: Sequence, draft: Draft, verdict: Verdict) -> None:
        """What came of a draft."""
        if sequence in self._of:
            self._of[sequence].checked(draft, verdict)

    def ended(self, sequence: Sequence) -> None:
        """It asks for no more."""
        if speculation := self._of.pop(sequence, None):
            speculation.close()


class Costs:
    """What steps of the model cost, with drafts that were looked up and with drafts of a model."""

    def __init__(self) -> None:
        self.lookup, self.model = StepCosts(), StepCosts()


class Speculation:
    """Guesses of one answer: what followed before, else what a draft model says."""

    def __init__(self, sequence: Sequence, costs: Costs, model: ModelDrafter | None, is_warm: IsWarm) -> None:
        """`costs`: shared by the model's answers."""
        self._sequence, self._is_warm = sequence, is_warm
        self._lookup, self._model = PromptLookup(), model
        self._modelled = 0  # tokens that the draft model knows
        self._lookup_gain, self._model_gain = SpeculationGain(costs.lookup), SpeculationGain(costs.model)

    def is_promising(self) -> bool:
        """Whether a draft is likely to be worth a step, for an answer whose next token is in flight."""
        looked_up, best = self._look_up()
        return best > 0 or (not looked_up.tokens and self._most_of_model() > 0)

    def draft(self) -> Draft | None:
        """What to check in the next step; None to decode plainly."""
        looked_up, best = self._look_up()
        if best:
            return looked_up.cut(best)
        most = 0 if looked_up.tokens else self._most_of_model()
        if not most or self._model is None:
            return None
        self._model.add(self._sequence.tokens(self._modelled, self._sequence.length))
        self._modelled = self._sequence.length
        try:
            return self._model.draft(most)
        except OutOfPages:
            return None

    def stepped(self, draft: Draft | None, seconds: float) -> None:
        """A step took `seconds`; one without a draft is what both kinds are compared with."""
        tokens = 1 + (len(draft.tokens) if draft else 0)
        if draft is None or draft.match:
            self._lookup_gain.stepped(tokens, seconds)
        if self._model is not None and (draft is None or not draft.match):
            self._model_gain.stepped(tokens, seconds)

    def checked(self, draft: Draft, verdict: Verdict) -> None:
        """What came of a draft."""
        gain = self._lookup_gain if draft.match else self._model_gain
        gain.accepted(len(draft.tokens), verdict.accepted, draft.match)

    def close(self) -> None:
        """The answer has ended."""
        if self._model is not None:
            self._model.close()

    @property
    def _most(self) -> int:
        sequence = self._sequence
        return min(MOST_DRAFTED, sequence.request.most_tokens - len(sequence.generated) - 1)

    def _look_up(self) -> tuple[Draft, int]:
        """A draft from the answer's own past, and how much of it to check."""
        begin, end = len(self._lookup), self._sequence.length
        self._lookup.add(self._sequence.tokens(begin, min(end, begin + _CATCH_UP)))
        if end > begin + _CATCH_UP:
            return Draft((), 0), 0
        found = self._lookup.draft(self._most)
        if not found.tokens:
            return found, 0
        return found, self._lookup_gain.best(len(found.tokens), found.match, self._lengths)

    def _most_of_model(self) -> int:
        if self._model is None or self._most <= 0 or not self._model.is_warm(self._sequence.length):
            return 0
        return self._model_gain.best(self._most, lengths=self._lengths)

    @property
    def _lengths(self) -> list[int]:
        """Of drafts whose step compiles nothing: nobody waits for that in the middle of an answer."""
        length = self._sequence.length
        return [drafted for drafted in LENGTHS if self._is_warm(1 + drafted, length + drafted)]
