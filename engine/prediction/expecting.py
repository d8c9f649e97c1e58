"""What is expected of a prompt before it is read: by who is about to send it, and by those it comes among."""

from __future__ import annotations

from dataclasses import replace

from engine.batcher import Batcher
from engine.cache.arena_room import ArenaRoom
from engine.cache.finding import Finding, Reused
from engine.events.cache import Predicted
from engine.requests.request import Request
from engine.rest.tidying import Tidying
from engine.rest.warming import Warming


class Expecting:
    """Says of one model's requests when their first token will come, and how long their prompts take."""

    def __init__(
        self, batcher: Batcher, finding: Finding, room: ArenaRoom, warming: Warming, tidying: Tidying
    ) -> None:
        self._batcher, self._finding = batcher, finding
        self._room, self._warming, self._tidying = room, warming, tidying

    def added(self, request: Request) -> None:
        """It is about to join those that are there."""
        if self._batcher.busy:
            self._expect(request, self._finding.reused(request))

    def predict(self, request: Request, *, is_alone: bool) -> Predicted:
        """What it would find, were it sent now. Where that is on SSD, there will be room for it.

        Without a time where another model works too, not `is_alone`: its steps come between, and nobody knows
        how many; nor where it would wait for an answer's pages or place.
        """
        reused = self._finding.reused(request)
        if self._batcher.busy:
            self._expect(request, reused)
        newcomer = request.sequences[0]
        turn, is_next = newcomer.turn, self._batcher.can_begin(newcomer)
        ahead = [other for other in self._batcher if other.turn <= turn and other.pending > 1]
        self._warming.expect()
        pages = self._room.needed(request)
        predicted = self._finding.predict(request, reused, ahead, pages)
        if predicted.restored_tokens:
            self._tidying.expect(pages)
        return predicted if is_alone and is_next else replace(predicted, seconds=None)

    def _expect(self, newcomer: Request, reused: Reused) -> None:
        """Others are there: how long its prompt takes to read, and what is left of theirs."""
        for sequence in self._batcher.running:
            sequence.reading = self._finding.rest(sequence)
        newcomer.sequences[0].reading = self._finding.reading(newcomer, reused)
