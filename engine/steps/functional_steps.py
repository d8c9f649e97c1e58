"""Steps in the functional set: of any parts, by MLX's own operations where no kernel stands in for them.

On a CPU the host itself computes those of few tokens (engine/cpu/host_steps.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import mlx.core as mx

from engine.cpu.aside import Aside
from engine.cpu.crew import Crew
from engine.cpu.host_steps import HostSteps
from engine.kv.step import FunctionalStep
from engine.layers.ops import PICK_OPERATIONS, LinearOps, pick
from engine.loading.model import LoadedModel
from engine.machine.machine import device_kind
from engine.steps.graph import GraphCounter
from engine.steps.parts import Filling, Part, wanted_rows
from engine.steps.staging import Staging

_IN_TURNS = "long prompts beside an answer go in turns with it, more slowly"


class FunctionalSteps:
    """Runs steps through a model whose pools are values: each write yields a new one.

    Attributes:
        launches: of decode steps and picks so far, by kernel; MLX's own operations by their name, with "mlx."
            before it, and what the host computes with "host.".
        host: what computes steps of few tokens on a CPU; None where MLX does.
        written: evaluated, these mean that every step so far has ended, and that its pages are written.
    """

    def __init__(
        self,
        model: LoadedModel,
        ops: LinearOps[mx.array],
        prompt_ops: LinearOps[mx.array],
        crew: Crew,
        staging: Staging,
    ) -> None:
        """`ops` compute the linear parts of decode steps, `prompt_ops` those of prompts."""
        self._model, self._ops, self._prompt_ops = model, ops, prompt_ops
        self._crew, self._staging = crew, staging
        self.launches: Counter[str] = Counter()
        self.written: tuple[mx.array, ...] = ()
        self._operations = GraphCounter()
        self._is_cpu = device_kind() == "CPU"
        self.host = HostSteps(model, self.launches, crew) if self._is_cpu and model.kernels is None else None
        self._no_logits = mx.zeros((0, model.config.vocab_size))
        self._aside = Aside(model.decoder, model.arena, crew.size)

    @property
    def has_aside(self) -> bool:
        """Whether prompts may have processes of their own."""
        is_plain = self.host is not None and not self._model.arena.is_quantised
        return is_plain and self._aside.is_possible

    @property
    def notes(self) -> tuple[str, ...]:
        """See Runner."""
        why = self._aside.failure
        return (f"{_IN_TURNS}, since {why}; load it again to have them apart",) if why else ()

    def __call__(self, parts: Sequence[Part], tokens: mx.array, *, is_decode: bool) -> mx.array:
        """Float32 logits (Σ rows, vocab), the last `rows` of each part, part after part; not evaluated.

        Args:
            parts: whose pages are there already; their tables do not get longer here.
            tokens: of all parts, one part after the other, uint32 (Σ tokens,).
            is_decode: whether its launches count.
        """
        if self.host is not None and self.host.takes(parts):
            logits = self.host(parts, tokens, is_decode=is_decode)
            self.written = (logits,)
            return logits
        model, kernels = self._model, self._model.kernels
        before = Counter[str]() if kernels is None else kernels.launches.copy()
        step, ops = self.attend(parts), self._ops if is_decode else self._prompt_ops
        if any(part.rows for part in parts):
            logits = model.decoder.logits(self._hidden(parts, tokens, ops, step), self._ops)
        else:
            model.decoder.store(tokens, ops, step, step.write)
            logits = self._no_logits
        self.written = (logits,) if logits.size else tuple(model.arena.written())
        if is_decode:
            self.launches.update(self._operations(step.form, logits))
            if kernels is not None:
                self.launches.update(kernels.launches - before)
        return logits

    def _hidden(
        self, parts: Sequence[Part], tokens: mx.array, ops: LinearOps[mx.array], step: FunctionalStep
    ) -> mx.array:
        """Last hidden states whose logits are wanted, (Σ rows, width)."""
        decoder, rows = self._model.decoder, parts[0].rows
        if len(parts) == 1 and rows < parts[0].tokens:
            return decoder.last_hidden(tokens, ops, step, partial(step.last, rows=rows), rows)
        return wanted_rows(parts, decoder.hidden(tokens, ops, step))

    def pick(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """The likeliest token of each row of (rows, vocab) logits, and the log of its mass: see Pick."""
        if self.host is not None:
            return self.host.pick(logits)
        self.launches.update(PICK_OPERATIONS)
        return pick(logits)

    def advance_aside(self, filling: Filling, seconds: float) -> mx.array | None:
        """See Runner."""
        part = filling.part
        if filling.aside is None:
            ids = self._staging.token_ids(filling.tokens)
            filling.aside = self._aside.begin(part.table, ids, is_last=part.rows > 0)
        self.wait_for_aside(filling, seconds)
        chunk = filling.aside
        self._aside.store(chunk, part.table, is_awaited=seconds == 0)
        filling.layer = chunk.layers
        if not chunk.is_through:
            return None
        part.table.length += part.tokens
        if chunk.hidden is None:
            return self._no_logits
        assert self.host is not None  # or there were no process
        return self.host.logits(chunk.hidden)

    def wait_for_aside(self, filling: Filling, seconds: float) -> None:
        """See Runner."""
        if filling.aside is not None and seconds > 0:
            filling.aside.wait(seconds)

    def attend(self, parts: Sequence[Part]) -> FunctionalStep:
        """Attention of a step of these parts, whose pages are there already."""
        # A CPU is asked for a prompt's next step when this one has ended: it may wait in the middle of it.
        waits = self._is_cpu and any(part.rows < part.tokens for part in parts)
        tables = [(part.table, part.tokens) for part in parts]
        return FunctionalStep(self._model.arena, tables, crew=self._crew if waits else None)
