"""Speculation of the answer that runs alone: its drafter, what it has brought, and what to check next."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from collections.abc import Sequence as Many
from enum import Enum, auto

from engine.errors import EngineError
from engine.requests.request import Sequence
from engine.rest.warm_up import IsWarm
from engine.speculation.copying import CopyGain
from engine.speculation.draft import LENGTHS, MOST_DRAFTED, Draft
from engine.speculation.lookup import PromptLookup
from engine.speculation.model_drafter import DraftModel
from engine.speculation.model_guesses import Costs, ModelGuesses
from engine.speculation.verify import Verdict

log = logging.getLogger(__name__)

_CATCH_UP = 64
"""Tokens of a long prompt that are looked through with each token of the answer, so that none waits."""

_BRIEF = 0.003
"""Seconds of a plain step below which looking at its token takes a noticeable part of it: 6 to 9 µs beside
steps of 0.3 ms on a GPU, 17 to 22 beside 1.3 on a CPU, as little of that is in the processor's caches."""

_BRIEF_WITH_MODEL = 0.012
"""And where a draft model is asked, too, in 50 to 90 µs."""

_RESTS = 3
"""Such steps that are not looked at, behind one at which nothing was foretold: to look at four tokens at once
takes little longer than at one."""

_WHILE_FILLING = 2048
"""And with each piece of the prompt, while the model is at the next."""


class Speculations:
    """Guesses for whoever runs alone: a batch keeps the machine busy anyway."""

    def __init__(
        self,
        *,
        is_on: bool,
        is_warm: IsWarm,
        model: DraftModel | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`model`: guesses where the text does not repeat; None for no such guesses."""
        self._is_on, self._is_warm = is_on, is_warm
        self._model = model
        self._costs = Costs()
        self._of: dict[Sequence, Speculation] = {}
        self._clock, self._guessed_at = clock, 0.0
        self._alone: Speculation | None = None  # the one that guessed last, while nobody joins it
        self._resting: Sequence | None = None  # whose steps need no look at once
        self._rests = 0  # steps since the last look
        self._has_broken = False

    def guess(self, running: Many[Sequence]) -> None:
        """Set what the only running answer is to check in its next step, if anything.

        To be called when a step was read and told of: it took what has passed since the last call.
        """
        if not self._is_on:
            return
        if len(running) != 1:
            self._alone = self._resting = None
            self._rests = 0
            return
        sequence = running[0]
        if sequence is self._resting and self._rests < _RESTS:
            self._rests += 1
            return
        if not sequence.request.command.speculation:
            self._alone = None
            return
        steps, alone, self._rests = 1 + self._rests, self._alone, 0
        speculation = self._of.get(sequence)
        if speculation is None:
            model = ModelGuesses(sequence, self._model, self._costs) if self._model else None
            speculation = self._of[sequence] = Speculation(sequence, self._costs, model, self._is_warm)
        last, self._guessed_at = self._guessed_at, self._clock()
        try:
            speculation.guess(self._guessed_at - last if speculation is alone else None, steps)
        except Exception as error:
            self._has_broken = self._model is not None and not isinstance(error, EngineError)
            raise
        self._alone = speculation
        self._resting = sequence if speculation.may_rest else None

    def checked(self, sequence: Sequence, draft: Draft, verdict: Verdict) -> None:
        """What came of a draft."""
        if speculation := self._of.get(sequence):
            speculation.checked(draft, verdict)

    def ended(self, sequence: Sequence) -> None:
        """It asks for no more."""
        self._alone = self._resting = None
        self._rests = 0
        if speculation := self._of.pop(sequence, None):
            speculation.close(sequence.request.owner)

    def forget(self, chat: str) -> None:
        """What the draft model has cached of `chat` goes."""
        if self._model is not None:
            self._model.model.memory.forget(chat)

    def put_away(self, chat: str) -> None:
        """The same of what only `chat` owns, and nobody runs with."""
        if self._model is not None:
            self._model.model.memory.put_away(chat, 0.0)

    def distrust(self) -> bool:
        """After a device error no page holds what it should, of the draft model's neither.

        Returns whether it was the draft model that broke: nothing is asked of it until it is loaded again.
        """
        for speculation in self._of.values():
            speculation.close(None)
        self._of.clear()
        self._alone = self._resting = None
        if self._model is not None:
            self._model.live.drop_pages()
        has_broken, self._has_broken = self._has_broken, False
        if has_broken:
            log.exception("a draft model broke: nothing is asked of it until it is loaded again")
            self._model = None
        return has_broken


class _Step(Enum):
    """How a step of one sequence lies in time."""

    OTHER = auto()  # of its prompt, or unknown
    DRAFT = auto()
    AHEAD = auto()  # sent before the one before it was read
    HELD = auto()  # sent ahead, and none is sent until it is read
    LONE = auto()  # sent when the one before it was read


class Speculation:
    """Guesses of one answer: what followed before, else what a draft model says."""

    def __init__(self, sequence: Sequence, costs: Costs, model: ModelGuesses | None, is_warm: IsWarm) -> None:
        """`costs`: shared by the model's answers."""
        self._sequence, self._is_warm = sequence, is_warm
        self._lookup, self._model = PromptLookup(), model
        self._taken: int | None = None  # tokens of the answer looked through; None: not its prompt yet
        self._costs = costs
        self._copying = CopyGain(costs.lookup)
        self._before = self._step = _Step.OTHER  # the step that is read next, and the one before it
        self._checked: tuple[Draft, Verdict] | None = None

    @property
    def may_rest(self) -> bool:
        """Whether the next tokens need no look at once: nothing is foretold, and steps are brief."""
        if self._step not in (_Step.AHEAD, _Step.LONE) or self._taken is None or self._lookup.match:
            return False
        if self._model is None:
            return self._costs.lookup.plain_seconds < _BRIEF
        return self._model.may_rest and self._costs.lookup.plain_seconds < _BRIEF_WITH_MODEL

    def guess(self, seconds: float | None, steps: int = 1) -> None:
        """Set what the answer's next step is to check, or whether it waits for the token in flight.

        Args:
            seconds: what the step took that was read; None where nobody can know.
            steps: as many were read since the last call, all but the first of them sent as this one.
        """
        sequence = self._sequence
        self._learn(seconds, steps)
        self._take_in()
        sequence.draft, sequence.wants_draft = None, False
        self._before = self._step
        if not sequence.generated or self._model_reads_on():
            self._step = _Step.OTHER
        elif sequence.is_in_flight:
            has_any = self._lookup.match > 0 or self._model is not None
            sequence.wants_draft = has_any and self._is_worth_waiting()
            self._step = _Step.HELD if sequence.wants_draft else _Step.AHEAD
        else:
            sequence.draft = self._draft()
            self._step = _Step.LONE if sequence.draft is None else _Step.DRAFT

    def checked(self, draft: Draft, verdict: Verdict) -> None:
        """What came of a draft."""
        self._checked = draft, verdict

    def close(self, chat: str | None) -> None:
        """The answer has ended; the draft model keeps for `chat` what it has read, unless that is None."""
        if self._model is not None:
            self._model.close(chat)

    def _learn(self, seconds: float | None, steps: int) -> None:
        """What the steps that were read took and brought; plain ones are what drafts are compared with."""
        checked, self._checked = self._checked, None
        if checked is not None:
            self._learn_of_draft(*checked, seconds)
            return
        self._copying.stepped(steps)
        step, costs = self._step, self._costs.lookup
        if seconds is None:
            return
        if self._model is not None and step is not _Step.OTHER:
            self._model.stepped(1, seconds / steps, steps)
        if step is _Step.HELD:
            costs.held(seconds)
        elif step is _Step.LONE and self._before is not step:
            costs.lone(seconds)
        elif step is self._before and (step is _Step.AHEAD or step is _Step.LONE):
            costs.stepped(1, seconds / steps)

    def _learn_of_draft(self, draft: Draft, verdict: Verdict, seconds: float | None) -> None:
        drafted, accepted = len(draft.tokens), verdict.accepted
        if draft.match:
            if seconds is not None:
                self._costs.lookup.stepped(1 + drafted, seconds)
            self._copying.checked(drafted, accepted)
        elif self._model is not None:
            if seconds is not None:
                self._model.stepped(1 + drafted, seconds)
            self._model.accepted(drafted, accepted)

    def _take_in(self) -> None:
        """Look through what is new, and compare it with what was foretold."""
        generated, lookup = self._sequence.generated, self._lookup
        if self._taken is None:
            self._catch_up()
            return
        for place in range(self._taken, len(generated)):
            token = generated[place]
            match = lookup.match
            is_right = lookup.follow(token)
            if match:
                self._copying.foretold(match, is_right)
        self._taken = len(generated)

    def _catch_up(self) -> None:
        sequence, begin = self._sequence, len(self._lookup)
        end = min(sequence.length, begin + (_CATCH_UP if sequence.generated else _WHILE_FILLING))
        self._lookup.add(sequence.tokens(begin, end))
        if sequence.generated and end == sequence.length:
            self._taken = len(sequence.generated)

    def _is_worth_waiting(self) -> bool:
        """Whether a draft is likely to be worth a pause, for an answer whose next token is in flight."""
        match = self._match
        if match and self._copying.is_worth_waiting(match, self._most, self._lengths):
            self._copying.waited()
            return True
        return self._model is not None and self._model.best(self._most, self._lengths) > 0

    def _model_reads_on(self) -> bool:
        """Whether the draft model reads, where nothing was looked up: such a step is no plain one."""
        return self._model is not None and not self._match and self._model.reads_on(self._most, self._lengths)

    def _draft(self) -> Draft | None:
        """What to check in the next step; None to decode plainly."""
        match = self._match
        if match and (best := self._copying.best(match, self._most, self._lengths)):
            return self._lookup.draft(best)
        return self._model.draft(self._most, self._lengths) if self._model else None

    @property
    def _match(self) -> int:
        """Of what was looked up; 0 before the prompt was looked through."""
        return 0 if self._taken is None else self._lookup.match

    @property
    def _most(self) -> int:
        """Tokens that a draft may have: one more comes with them, and the one in flight before them."""
        sequence = self._sequence
        left = sequence.request.most_tokens - len(sequence.generated) - sequence.is_in_flight
        return min(MOST_DRAFTED, left - 1)

    def _lengths(self) -> list[int]:
        """Of drafts whose step compiles nothing: nobody waits for that in the middle of an answer."""
        length = self._sequence.length
        return [drafted for drafted in LENGTHS if self._is_warm(1 + drafted, length + drafted)]
