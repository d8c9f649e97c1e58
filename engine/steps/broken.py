"""After a step that broke: whose fault it was, and how the others go on."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from engine.batcher import Batcher
from engine.errors import EngineError
from engine.live_runner import LiveRunner
from engine.requests.failure import Suspicion
from engine.requests.request import Request, Sequence
from engine.steps.batch import Sent

log = logging.getLogger(__name__)


class BrokenSteps:
    """Tries those that were in a broken step one at a time, until each has gone on or broken one alone."""

    def __init__(self, batcher: Batcher, live: LiveRunner) -> None:
        self._batcher, self._live = batcher, live

    def went_well(self, sent: Sent) -> None:
        """A step was read: whoever was suspected may soon share steps again."""
        for request in requests_of(sent.everybody):
            if request.suspicion and request.suspicion.is_refuted(_length(request)):
                request.suspicion = None

    def left(self, sent: Sent) -> None:
        """Nobody has a request any more, and this step was sent ahead: wait for it, and learn nothing of it.

        Where it breaks, nobody is to blame: not whoever comes next.
        """
        try:
            sent.read()
        except Exception as error:  # what it wrote nobody reads, but the device may be lost
            log.exception("a step broke that was sent for nobody")
            self._live.drop_pages()
            self._live.doubt(error)

    def blame(self, error: Exception, flying: Sent | None, *, is_of_guess: bool = False) -> Request | None:
        """Who has to fail for `error`; all others that have lost something start again.

        None where several were in it, of whom some may have ended: then each is tried alone. Who only waits
        for a trial is not in it, but after an error of the device its pages are lost with all others.

        Args:
            flying: the step that was in flight before the one that was to be sent.
            is_of_guess: whether a draft model broke, which is asked no more: that is nobody's fault.
        """
        running = self._batcher.running
        hit = [s for s in running if s in self._batcher.stepping or (flying and s in flying.everybody)]
        requests = requests_of(hit or tuple(self._batcher)[:1])  # with nobody running, the one to begin
        lengths = {request: _length(request) for request in requests}
        is_lost = not isinstance(error, EngineError)
        if is_lost:
            self._live.drop_pages(sequence.table for sequence in running)
            if not is_of_guess:
                self._live.doubt(error)
        has_ended = flying is not None and any(s.request not in requests for s in flying.everybody)
        culprit = requests[0] if len(requests) == 1 and not (has_ended or is_of_guess) else None
        if culprit is None:
            log.warning("a step of %d requests broke (%s); each is tried alone", len(requests), error)
            for request in requests:
                request.suspicion = Suspicion(lengths[request])
        for sequence in running:
            if sequence.request is not culprit and (is_lost or sequence in hit):
                self._batcher.restart(sequence)
        return culprit


def requests_of(sequences: Iterable[Sequence]) -> list[Request]:
    """Whose these are, each once."""
    return list({id(sequence.request): sequence.request for sequence in sequences}.values())


def _length(request: Request) -> int:
    return max(sequence.table.length for sequence in request.sequences)
