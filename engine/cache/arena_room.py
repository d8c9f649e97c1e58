"""How large the arena is to be, for those who run and for who is next; built by and by beside answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from engine.batcher import Batcher
from engine.loading.model import LoadedModel
from engine.requests.request import Request, Sequence

log = logging.getLogger(__name__)

ANSWER_ROOM = 512
"""Tokens of an answer that the arena has room for when its prompt begins: growing holds up who reads it."""

NEAR_PAGES = 16
"""That are built and free: where there will be fewer, more are built ahead of the answers that want them."""


SHARE, LONGEST_S = 0.5, 0.05
"""Of what the last step took: how long a device is given arrays to build, or one; and seconds at most."""

AT_ONCE = 256 << 20
"""Bytes that it is given before a step at most, or an array: it builds them later than it is asked to."""


class ArenaRoom:
    """Has the arena grow when a request begins, for all of it and for those beside it, in one go.

    Where answers are being written that waits until the larger one is built: memory that the system gives for
    the first time takes long. On a CPU a thread builds meanwhile, on a device some arrays before each step.
    """

    def __init__(self, model: LoadedModel, batcher: Batcher) -> None:
        self._memory, self._pager, self._arena = model.memory, model.pager, model.arena
        self._batcher = batcher
        self._following: Sequence | None = None
        self._pages = 0
        self._left_at = 0.0
        self._seen = tuple[Sequence, ...]()
        self._reading: Iterable[Sequence] = ()  # of those, as long as they do

    def needed(self, request: Request) -> int:
        """Pages that the arena should have for it, were it sent now."""
        answer = min(request.most_tokens, ANSWER_ROOM)
        return self._memory.pages_built_for(request.prompt, answer, self._missing(self._batcher.running))

    def is_there(self, elsewhere: int) -> bool:
        """Whether who begins next would hold up no answer by growing; builds some of what is missing.

        `elsewhere`: answers of other models, which wait for this thread as well.
        """
        running, until = self._batcher.running, self._until()
        if not elsewhere and not any(sequence.generated for sequence in running):
            return True
        if running is not self._seen:
            self._seen, self._reading = running, running
        self._reading = [sequence for sequence in self._reading if sequence.pending > 1]
        pages = self._memory.built_for(NEAR_PAGES + self._missing(self._reading))
        following = self._batcher.next
        if following is not None:
            if following is not self._following:
                self._following, self._pages = following, self._wanted(following)
            pages = max(pages, self._pages)
        try:
            return self._build(pages, until)
        except Exception:  # whoever needs it has it built at once, and is told if that breaks, too
            log.exception("KV memory could not be built ahead")
            self._arena.growing.drop_ahead()
            return True
        finally:
            self._left_at = time.perf_counter()

    def _until(self) -> float:
        now = time.perf_counter()
        return now + min(SHARE * (now - self._left_at), LONGEST_S)

    def _build(self, pages: int, until: float) -> bool:
        growing, limit = self._arena.growing, self._pager.total_pages
        before = growing.ahead_bytes
        while not growing.build_ahead(pages, limit):
            is_enough = time.perf_counter() >= until or growing.ahead_bytes - before >= AT_ONCE
            if growing.is_building or is_enough:
                return False
        return True

    def prepare(self, sequence: Sequence) -> float:
        """It has begun, for the first time or again after it gave way; returns seconds of growing."""
        began, self._following = time.perf_counter(), None
        self._memory.prepare(self._missing(self._batcher.running))
        return time.perf_counter() - began

    def rest(self) -> None:
        """Nobody has a request: what was built ahead and not needed is given back."""
        self._following, self._seen, self._reading = None, (), ()
        self._arena.growing.drop_ahead()

    def _wanted(self, following: Sequence) -> int:
        running = self._missing(self._batcher.running)
        return self._memory.pages_built_for(following.known, self._answer(following), running)

    def _missing(self, sequences: Iterable[Sequence]) -> int:
        """Pages that they may still take."""
        return sum(
            self._pager.missing(sequence.table, sequence.length + self._answer(sequence))
            for sequence in sequences
        )

    def _answer(self, sequence: Sequence) -> int:
        return min(sequence.request.most_tokens - len(sequence.generated), ANSWER_ROOM)
