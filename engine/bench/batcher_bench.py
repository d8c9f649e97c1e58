"""What a step costs beside the model: scheduler and pager, timed with a runner that computes nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence as Many
from dataclasses import dataclass
from statistics import median

import mlx.core as mx

from engine.batcher import Batcher
from engine.commands import Generate
from engine.loading.model import LoadedModel
from engine.pacing.chunking import ChunkSizer
from engine.requests.accepting import accept_command
from engine.requests.admission import Capacity
from engine.requests.request import Sequence
from engine.runner import Runner
from engine.scheduler import MAX_RUNNING
from engine.steps.parts import Part

_PROMPT = 200  # and one more for each answer, so that in every step some need a new page


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Seconds of the host for a step of a batch, each the median of many steps.

    Attributes:
        scheduling: who runs, and room in pages for each: all of `Batcher.start`, of `Batcher.send` but
            for the step that it builds and sends, and of `Batcher.trim`.
        accepting: taking a token in for each: its text, stop strings, whether it ends the answer.
    """

    scheduling: float
    accepting: float


class NullRunner(Runner):
    """A runner whose logits are always the same: nothing is computed, nothing is written to pages."""

    def __init__(self, model: LoadedModel, rows: int) -> None:
        super().__init__(model)
        self._logits_of_all = mx.zeros((rows, model.config.vocab_size))
        self._picked = mx.full((rows,), 20, dtype=mx.uint32), mx.zeros((rows,))
        mx.eval(self._logits_of_all, self._picked)

    @property
    def looks_ahead(self) -> bool:
        """Each step is read before the next one is sent."""
        return False

    @property
    def results(self) -> tuple[mx.array, ...]:
        """Nothing to wait for."""
        return ()

    def step(self, parts: Many[Part], tokens: mx.array) -> mx.array:
        """The tables get longer, as if the tokens had been computed."""
        for part in parts:
            part.table.length += part.tokens
        return self._logits_of_all[: sum(part.rows for part in parts)]

    def pick(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """The same token for each row."""
        tokens, masses = self._picked
        return tokens[: logits.shape[0]], masses[: logits.shape[0]]


def step_costs(model: LoadedModel, batch: int, steps: int) -> StepCosts:
    """Time `steps` decode steps of `batch` answers, at most MAX_RUNNING, on the pages of `model`."""
    assert 1 <= batch <= MAX_RUNNING
    chunks = ChunkSizer(2048, model.pager.page_size, model.config.layers)
    batcher = Batcher(model.memory, model.pager, chunks, lambda tokens, length: True)
    runner = NullRunner(model, batch)
    for number in range(batch):
        batcher.add(_request(model, number, steps).request)
    scheduling: list[float] = []
    accepting: list[float] = []
    while len(scheduling) < steps:
        began = time.perf_counter()
        started = batcher.start(None)
        if started is not None:
            started.may_restore = False
        sent = batcher.send(runner, None)
        assert sent is not None
        planned = sent.sending.began - began + time.perf_counter() - sent.sending.ended
        tokens, _ = sent.read()
        read = time.perf_counter()
        for sequence, token in zip(sent.sequences, tokens, strict=True):
            sequence.is_in_flight = False
            sequence.accept(token, is_end=False)
        taken = time.perf_counter()
        batcher.trim()
        if sent.answers == batch and sent.slice is None:
            scheduling.append(planned + time.perf_counter() - taken)
            accepting.append(taken - read)
    for sequence in list(batcher):
        batcher.release(sequence)
    return StepCosts(median(scheduling), median(accepting))


def _request(model: LoadedModel, number: int, steps: int) -> Sequence:
    """An answer that goes on for longer than all steps, behind a prompt that no other begins with."""
    prompt = [10 + number, *(10 + (number + place) % 200 for place in range(_PROMPT + number))]
    command = Generate(str(number), tokens=tuple(prompt), max_tokens=steps + 4 * MAX_RUNNING, ignore_eos=True)
    pages = model.pager.total_pages
    capacity = Capacity(pages, model.pager.page_size, {}, pages_in_8_bits=pages)
    return accept_command(command, model, lambda prompt: capacity, float(number)).sequences[0]
