"""Chunks of prompts: how many tokens the next one has, which way it goes through the model, and how far."""

from __future__ import annotations

import logging
import time

from engine.cpu.aside import AsideBroke
from engine.machine.processors import are_two
from engine.pacing.chunking import ChunkSizer
from engine.pacing.ways import Way
from engine.requests.request import Sequence
from engine.rest.warm_up import STEPS, IsWarm
from engine.runner import Runner
from engine.steps.parts import Filling, Part

log = logging.getLogger(__name__)

FEWEST_ASIDE = 64
"""Tokens of a prompt that are worth a process of their own, at least."""
WORTH_ASIDE_S = 0.1
"""Seconds that it takes alone, at least: 64 tokens take 33 ms by a process, without one 17 (AMD EPYC)."""
_PATIENCE = 0.05
"""Seconds to wait for a chunk in a process of its own, where there is nothing else to do."""
_MANY_STEPS = 8
"""Of a chunk, for a step of its own in which what its layers read is written: a GPU's host waits for that."""


class PromptChunks:
    """Cuts prompts, and says how much of a chunk a step computes; one is computed beside answers."""

    def __init__(self, sizer: ChunkSizer, is_warm: IsWarm) -> None:
        """`is_warm`: of steps of a sequence alone; a prompt's last few tokens make no others."""
        self._sizer, self._is_warm = sizer, is_warm
        self._aside: Sequence | None = None
        self._aside_at, self._waits = 0.0, are_two()

    def next(self, runner: Runner, sequence: Sequence, answers: int) -> tuple[int, Way]:
        """Tokens of the next chunk of its prompt beside so many `answers`, and its way through the model.

        It has a process of its own beside other models' answers, too.
        """
        pending = sequence.pending
        is_long = pending >= max(FEWEST_ASIDE, WORTH_ASIDE_S * self._sizer.rate)
        is_awaited = answers or self._sizer.elsewhere.answers
        if is_awaited and is_long and runner.has_aside and sequence.request.may_have_process:
            return self._sizer.aside(pending), Way.ASIDE
        begin = sequence.table.length
        size = self._warm(begin, self._sizer.next(begin, pending, answers))
        return size, self._sizer.way(size, answers)

    def begin(self, sequence: Sequence, size: int, way: Way) -> None:
        """Its chunk is its next `size` tokens, for which its table has room."""
        begin = sequence.table.length
        part = Part(sequence.table, size, rows=int(size == sequence.pending))
        sequence.filling = Filling(part, sequence.tokens(begin, begin + size), way)
        if way is Way.ASIDE:
            self._leave_place_to(sequence)

    def broke(self, sequence: Sequence | None, error: AsideBroke) -> None:
        """The process of its chunk did: the prompt goes on without one, behind what is in its pages."""
        if sequence is None:
            raise error
        log.warning("%s; the rest of the prompt is computed without one", error)
        sequence.drop_filling()
        sequence.request.may_have_process = False
        self.ended(sequence)

    def ended(self, sequence: Sequence) -> None:
        """It has no more chunks."""
        if self._aside is sequence:
            self._aside = None

    def steps(self, begin: int, tokens: int) -> int:
        """How many it takes to compute `tokens` of a prompt, from token `begin` on, beside no answers.

        To be asked of a few: it counts them, and a long prompt has thousands beside another model's answers.
        """
        count = 0
        while tokens > 0:
            size = self._warm(begin, self._sizer.next(begin, tokens))
            begin, tokens, count = begin + size, tokens - size, count + self._sizer.steps(size)
        return count

    def layers(self, runner: Runner, filling: Sequence | None, answers: int) -> int:
        """How many layers of its chunk the next step computes at most; 0: what they read is made ready."""
        if filling is None or filling.filling is None:
            return 0
        chunk = filling.filling
        if chunk.way is not Way.APART:
            return runner.layers
        layers = self._sizer.layers(chunk.part.tokens, runner.layers - chunk.layer, answers)
        is_apart = answers and chunk.x is None and runner.looks_ahead
        return 0 if is_apart and runner.layers >= _MANY_STEPS * layers else layers

    def patience(self, filling: Sequence | None, answers: int) -> float:
        """Seconds that the next step waits for a chunk in its own process: there is nothing else to do."""
        is_awaited = answers or self._sizer.elsewhere.answers
        return _PATIENCE if filling is not None and filling.goes(Way.ASIDE) and not is_awaited else 0.0

    def pace(self, answers: int) -> float:
        """Seconds until it is time for the tokens that so many answers have come to beside such a chunk.

        Of more than two processors answers leave nothing to it by waiting.
        """
        if not self._waits:
            return 0.0
        now = time.perf_counter()
        wait = max(0.0, self._aside_at + self._sizer.aside_seconds(answers, now - self._aside_at) - now)
        self._aside_at = now + wait
        return wait

    def _leave_place_to(self, sequence: Sequence) -> None:
        """The chunk of who had it before, if that is not through, is dropped: this one goes first now."""
        before, self._aside = self._aside, sequence
        if before is not None and before is not sequence and before.goes(Way.ASIDE):
            before.drop_filling()

    def _warm(self, begin: int, size: int) -> int:
        """`size`, or where a chunk is so short that kernels are compiled for its length, fewer tokens."""
        if size > max(STEPS):
            return size
        return next((fewer for fewer in range(size, 1, -1) if self._is_warm(fewer, begin + fewer)), 1)
