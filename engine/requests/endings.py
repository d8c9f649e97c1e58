"""How requests of one model end: an answer at its end, one or all as cancelled, or a request by a failure."""

from __future__ import annotations

from collections.abc import Callable

from engine.batcher import Batcher
from engine.cache.finding import Finding
from engine.events.events import Event, FinishReason, SampleEnded
from engine.live_runner import LiveRunner
from engine.requests.failure import failure
from engine.requests.request import Request, Sequence
from engine.speculation.speculating import Speculations
from engine.steps.broken import requests_of
from engine.telling import Teller


class Endings:
    """Ends answers, keeps what was computed of them, and tells so."""

    def __init__(
        self,
        batcher: Batcher,
        live: LiveRunner,
        speculations: Speculations,
        finding: Finding,
        tell: Teller,
        emit: Callable[[Event], None],
    ) -> None:
        self._batcher, self._live, self._speculations = batcher, live, speculations
        self._finding, self._tell, self._emit = finding, tell, emit

    def cancel(self, request_id: str, sample: int | None) -> None:
        """End a request as cancelled, or one of its answers; ids that are not here are ignored."""
        for request in requests_of(self._batcher):
            if request.id == request_id:
                if sample is None:
                    self._cancel(request)
                else:
                    self._discard(request, sample)

    def cancel_all(self, why: str) -> None:
        """End every request as cancelled; `why`, where nobody asked for that, as in Finished."""
        for request in requests_of(self._batcher):
            request.why = why
            self._cancel(request)

    def end(self, sequence: Sequence, reason: FinishReason) -> None:
        """It gets no more tokens; what is computed of it is kept, where somebody wants it."""
        request, sequence.reason = sequence.request, reason
        if rest := sequence.drain():
            self._tell.text(sequence, rest)
        if reason == "length" and sequence.stops.stopped:  # by a stop string in what was held back
            sequence.reason = reason = "stop"
        if sequence.is_discarded:
            self._batcher.keeping.discard(sequence)
        else:
            self._batcher.keeping.keep(sequence)
            self._finding.computed(sequence)
        self._tell.ends(request)
        request.read = max(request.read, sequence.given, sequence.table.length)
        self._batcher.release(sequence)
        self._speculations.ended(sequence)
        if not request.is_over:
            self._emit(SampleEnded(request.id, sequence.index, reason, sequence.limit))
        else:
            before = request.launched_before
            self._emit(request.finished({} if before is None else self._live.launches - before))

    def run_out(self, request: Request) -> bool:
        """An answer of it ran alone, and there is no page for its next token: it ends with what it has.

        That can be where chats were pinned, or models loaded, since it was accepted. Others of the request,
        that gave way, go on then. Returns whether it had begun.
        """
        going_on = [sequence for sequence in request.sequences if sequence.reason is None]
        ending = [sequence for sequence in self._batcher.running if sequence in going_on] or going_on
        if not all(sequence.generated for sequence in ending):
            return False
        for sequence in ending:
            sequence.limit = "memory"
            self.end(sequence, "length")
        return True

    def fail(self, request: Request, error: Exception) -> None:
        """It ends here, and nothing of it is kept; the others go on."""
        for sequence in request.sequences:
            sequence.reason = sequence.reason or "cancelled"
            self._batcher.release(sequence)
            self._speculations.ended(sequence)
        self._emit(failure(request.id, error))

    def _cancel(self, request: Request) -> None:
        for sequence in request.sequences:
            if sequence.reason is None:
                self.end(sequence, "cancelled")

    def _discard(self, request: Request, sample: int) -> None:
        """Nobody wants this answer: it ends unkept, as soon as it has begun, or none of all is wanted."""
        for sequence in request.sequences:
            if sequence.index == sample and sequence.reason is None:
                sequence.is_discarded = True
                if sequence.generated:
                    self.end(sequence, "cancelled")
        if all(sequence.is_discarded or sequence.reason is not None for sequence in request.sequences):
            self._cancel(request)
