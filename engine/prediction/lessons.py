"""What is learned from steps and answers: how long prompts are cut, and what they take."""

from __future__ import annotations

from engine.batcher import Batcher
from engine.cache.finding import Finding
from engine.pacing.step_times import Reading, step_seconds
from engine.requests.request import Request
from engine.steps.batch import Sent


class Lessons:
    """Hands what steps and answers took to those whom it concerns."""

    def __init__(self, batcher: Batcher, finding: Finding) -> None:
        self._batcher, self._finding = batcher, finding
        self._read_at = 0.0

    def read(self, sent: Sent, read: Reading, following: Sent | None) -> None:
        """A step was read, while the `following` one is in flight, if one is."""
        last_read, self._read_at = self._read_at, read.ended
        seconds = step_seconds(sent.sending, read, last_read, following.sending if following else None)
        if sent.draft is not None:
            seconds = read.ended - last_read  # what a draft takes to make is part of what its step takes
        if seconds is None:
            return
        self._finding.took(sent, seconds)
        if sent.draft is not None:
            return
        if sent.slice is not None:
            piece = sent.slice
            self._batcher.chunks.filled(piece.tokens, piece.share, seconds, sent.answers, piece.way)
        elif sent.answers:
            self._batcher.chunks.decoded(sent.answers, seconds)

    def saved(self, request: Request) -> float:
        """See Finding."""
        return self._finding.saved(request)

    def answered(self, request: Request) -> None:
        """Its first token is there."""
        if self._batcher.has_one:  # learning from it takes up to a millisecond
            self._finding.answered(request)
