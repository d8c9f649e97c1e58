"""What a step's results mean: drafts hold as far as they are right, tokens are accepted and become text."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import mlx.core as mx

from engine.errors import NonFiniteLogits
from engine.loading.model import LoadedModel
from engine.pacing.step_times import Reading
from engine.prediction.lessons import Lessons
from engine.requests.endings import Endings
from engine.requests.request import Sequence
from engine.sampling.device import token_logprobs
from engine.speculation.draft import Draft
from engine.speculation.speculating import Speculations
from engine.speculation.verify import Verdict
from engine.steps.batch import Sent
from engine.telling import Teller


class StepResults:
    """Reads steps, and gives each answer what is its own; one whose numbers are not finite fails alone."""

    def __init__(
        self,
        model: LoadedModel,
        speculations: Speculations,
        lessons: Lessons,
        endings: Endings,
        tell: Teller,
    ) -> None:
        self._model, self._speculations, self._lessons = model, speculations, lessons
        self._endings, self._tell = endings, tell

    def read(self, sent: Sent, following: Sent | None, pace: Callable[[], None]) -> None:
        """Wait for a step, and take what came of it, while the `following` one is in flight, if one is.

        `pace` waits until it is time for it. Raises what the device raises for the step; nothing of it was
        taken then.
        """
        began = time.perf_counter()
        tokens, masses = sent.read()
        verdict = sent.check.read() if sent.check else None
        ended = time.perf_counter()
        self._lessons.read(sent, Reading(began, ended), following)
        pace()
        computed = sent.chunk.tokens if sent.chunk else 0
        self._tell.count(computed_tokens=computed + sent.prompt_ends)
        flying = set(following.sequences) if following else set[Sequence]()
        for row, sequence in enumerate(sent.sequences):
            if sequence.reason is not None:
                continue
            self._tell.stepped(sequence, ended)
            if sent.draft is not None and verdict is not None:
                self._checked(sequence, sent.draft, verdict, sent.logits)
                continue
            sequence.is_in_flight = sequence in flying
            if math.isfinite(masses[row]):
                self._accept(sequence, tokens[row], sent.logits[row] if sent.logits is not None else None)
            else:
                self._endings.fail(sequence.request, _not_finite(self._model.info.name))
        piece = sent.slice
        if piece is not None and piece.sequence.reason is None and not piece.is_last:
            self._tell.prefill(piece.sequence.request, piece.done, is_inside=not piece.ends)

    def _checked(self, sequence: Sequence, draft: Draft, verdict: Verdict, logits: mx.array | None) -> None:
        """A draft was checked: some of its tokens stay, and one more."""
        sequence.is_in_flight = False
        sequence.table.length = sequence.length + verdict.accepted
        self._tell.count(drafted_tokens=len(draft.tokens), accepted_tokens=verdict.accepted)
        sequence.request.drafted_tokens += len(draft.tokens)
        sequence.request.accepted_tokens += verdict.accepted
        self._speculations.checked(sequence, draft, verdict)
        if not verdict.is_finite:
            self._endings.fail(sequence.request, _not_finite(self._model.info.name))
        for row, token in enumerate(verdict.tokens):
            if sequence.reason is None:
                self._accept(sequence, token, logits[row] if logits is not None else None)

    def _accept(self, sequence: Sequence, token: int, logits: mx.array | None) -> None:
        """It has one token more, drawn from `logits` (vocab,) where somebody asks for log-probabilities."""
        request = sequence.request
        asked = request.command.logprobs
        if asked is not None and logits is not None:
            sequence.logprobs.append(token_logprobs(logits, token, asked))
        is_first = not request.clock.first_token
        if is_first:
            self._tell.prefill(request, len(request.prompt))
        is_end = token in self._model.tokenizer.eos_ids and not request.command.ignore_eos
        shown = sequence.accept(token, is_end)
        self._tell.token(sequence.read_at)
        if shown:
            self._tell.text(sequence, shown)
        if is_first:
            self._tell.count(saved_seconds=self._lessons.saved(request))
            self._lessons.answered(request)
        if sequence.reason is not None or sequence.is_discarded:
            self._endings.end(sequence, sequence.reason or "cancelled")


def _not_finite(name: str) -> NonFiniteLogits:
    return NonFiniteLogits(
        f"{name} produced numbers that are not finite; its weights may be damaged: download the model again"
    )
