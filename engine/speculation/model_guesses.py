"""What a draft model guesses of one answer: when it reads the text, and how much it drafts where it pays."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.kv.pager import OutOfPages
from engine.requests.request import Sequence
from engine.speculation.costs import StepCosts
from engine.speculation.draft import Draft
from engine.speculation.gain import SpeculationGain
from engine.speculation.model_drafter import DraftModel, ModelDrafter

_READING = 0.01, 0.1
"""Seconds for which the draft model reads between two steps, at least and at most."""

Lengths = Callable[[], list[int]]
"""Of drafts that may be checked now."""


class Costs:
    """What answers of the model share.

    Attributes:
        lookup: what steps cost with drafts that were looked up.
        model: what drafts of a model cost, and have brought.
    """

    def __init__(self) -> None:
        self.lookup, self.model = StepCosts(), SpeculationGain()


class ModelGuesses:
    """A draft model beside one answer."""

    def __init__(self, sequence: Sequence, model: DraftModel, costs: Costs) -> None:
        self._sequence, self._plain = sequence, costs.lookup
        self._drafter, self._gain = ModelDrafter(model), costs.model
        self._told = 0  # tokens
        self._may_draft = True  # as it was asked last
        self._gain.began()

    @property
    def may_rest(self) -> bool:
        """Whether it could not draft, or that was not worth it, when it was asked last.

        The next tokens need no look at once then.
        """
        return not self._may_draft or self._gain.declines

    def stepped(self, tokens: int, seconds: float, steps: int = 1) -> None:
        """See SpeculationGain; not for a step during which the draft model read."""
        self._gain.stepped(tokens, seconds, steps)

    def accepted(self, drafted: int, accepted: int) -> None:
        """See SpeculationGain."""
        self._gain.accepted(drafted, accepted)

    def best(self, most: int, lengths: Lengths) -> int:
        """How many of at most `most` tokens to draft now; 0 to decode plainly."""
        self._may_draft = (
            most > 0
            and not self._gain.is_out_of_question
            and self._drafter.knows_all
            and self._drafter.is_warm(self._sequence.length)
        )
        return self._gain.best(most, lengths()) if self._may_draft else 0

    def reads_on(self, most: int, lengths: Lengths) -> bool:
        """Whether a draft would pay but for text that the draft model has not read; it has some more now.

        That takes about as long as a step: an answer is half as quick until the draft model has caught up.
        """
        if not self.best(most, lengths) or not self._gain.may_read:
            return False
        self._tell()
        if not self._drafter.knows_all or not self._drafter.is_behind:
            return False
        least, longest = _READING
        began = time.perf_counter()
        try:
            self._drafter.read(min(max(self._plain.plain_seconds, least), longest))
        except OutOfPages:
            return False
        self._gain.has_read(time.perf_counter() - began)
        return True

    def draft(self, most: int, lengths: Lengths) -> Draft | None:
        """What to check in the next step; None to decode plainly."""
        if not (best := self.best(most, lengths)):
            return None
        self._tell()
        if not self._drafter.knows_all or self._drafter.is_behind:
            return None
        try:
            return self._drafter.draft(best)
        except OutOfPages:
            return None

    def close(self, chat: str | None) -> None:
        """The answer has ended; what was read is kept for `chat`, unless that is None.

        Only its prompt, where nobody wants the answer.
        """
        sequence = self._sequence
        wanted = len(sequence.request.prompt) if sequence.is_discarded else sequence.length
        self._drafter.close(chat, wanted)

    def _tell(self) -> None:
        sequence = self._sequence
        self._drafter.add(sequence.tokens(self._told, sequence.length), sequence.request.owner)
        self._told = sequence.length
