"""Runs the model on pages: one step, of new tokens of any number of sequences, at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from engine.cpu.crew import Crew, for_processors
from engine.cpu.host_steps import HostSteps
from engine.kv.in_place import BatchTables, InPlaceMix, InPlacePrefill, InPlaceStep
from engine.kv.page_table import PageTable
from engine.layers.attention import Attend
from engine.layers.ops import BuiltinOps, LinearOps
from engine.layers.waiting_ops import WaitingOps
from engine.loading.model import LoadedModel
from engine.machine.machine import device_kind
from engine.pacing.chunking import is_common
from engine.steps.chunk_step import LONGEST, MET_AT_REST, ChunkStep
from engine.steps.decode_step import DecodeStep
from engine.steps.functional_steps import FunctionalSteps
from engine.steps.parts import Filling, Part, are_mixed, wanted_rows
from engine.steps.staging import Staging
from metal.decode_attention import MAX_TOKENS
from metal.padded_attention import product_rows


class Runner:
    """The forward passes of one loaded model, on its kernels or, where it has none, on MLX's own operations.

    Logits are returned unevaluated. Where the runner `looks_ahead` the next step may be built before this one
    was waited for, from tokens that are not evaluated either; elsewhere `results` must be evaluated first.

    Attributes:
        ops: what computes the linear parts of steps.
        tokens: that decode steps were for: one of each sequence in each step.
        staging: by which token ids reach the device.
    """

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self.ops: LinearOps[mx.array] = BuiltinOps() if model.kernels is None else model.kernels.ops
        self._kernels = model.kernels if model.kernels is not None and model.kernels.is_in_place else None
        self.tokens, self.staging = 0, Staging.for_device()
        is_cpu = device_kind() == "CPU"
        crew = for_processors() if is_cpu else Crew(1)
        self._prompt_ops = WaitingOps() if is_cpu and model.kernels is None else self.ops
        self._no_logits = mx.zeros((0, model.config.vocab_size))
        self._host: HostSteps | None = None
        if self._kernels is None:
            model.arena.work_in_place(None)
            self._functional = FunctionalSteps(model, self.ops, self._prompt_ops, crew, self.staging)
            self._host = self._functional.host
        else:
            attention = self._kernels.attention
            copiers = [attention[layer.shape].copy for layer in model.decoder.attention]
            model.arena.work_in_place(copiers, by_views=self._kernels.is_lazy)
            if self._kernels.is_lazy:  # what is traced for a table of angles is so anew for a longer one
                model.decoder.rope.table(min(model.info.context_length, MET_AT_REST))
            self._step = DecodeStep(model.decoder, model.arena, self._kernels, self._kernels.ops)
            self._chunks = ChunkStep(model.decoder, model.arena, self._kernels, copiers, self.staging)
            self._rounds = any(each.rounds for each in attention.values())
            self._pads = any(each.pads for each in attention.values())
            self._batches = BatchTables(model.pager.page_size, self._kernels.partition, self.staging)

    @property
    def looks_ahead(self) -> bool:
        """Whether a step may be built while the one before it is still running.

        A GPU holds on to what a step has read: the next write without kernels would copy a pool. On a CPU
        sending a step is computing it.
        """
        return self._kernels is not None

    @property
    def has_aside(self) -> bool:
        """Whether prompts may have processes of their own: they read what answers have evaluated."""
        return self._kernels is None and self._functional.has_aside and self.tokens > 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What goes more slowly than it did when the model was loaded: a line each, with why."""
        return self._functional.notes if self._kernels is None else ()

    @property
    def layers(self) -> int:
        """Of the model."""
        return len(self._model.decoder.attention)

    @property
    def launches(self) -> Counter[str]:
        """What decode steps have launched so far, by name: see FunctionalSteps and DecodeStep."""
        return (self._functional if self._kernels is None else self._step).launches

    @property
    def results(self) -> tuple[mx.array, ...]:
        """Evaluated, these mean that every step so far has ended, and that its pages are written."""
        if self._kernels is not None:
            return (self._model.arena.pools.fence,)
        return self._functional.written

    @property
    def for_next(self) -> tuple[mx.array, ...]:
        """What the last step leaves for the next one to begin with, which evaluates it."""
        return () if self._kernels is None else (self._batches.lengths,)

    def step(self, parts: Sequence[Part], tokens: mx.array) -> mx.array:
        """Compute new tokens of sequences behind those in their pages, and store their keys and values.

        Args:
            parts: all with as many tokens, at most 8; or the last one with more than the others, which have
                one each: answers, and a piece of a prompt.
            tokens: of all parts, one part after the other, uint32 (Σ tokens,); where the runner looks ahead
                they need not be evaluated.

        Returns:
            Float32 logits (Σ rows, vocab), the last `rows` of each part, part after part; not evaluated.

        Raises ValueError for other parts.
        """
        count, is_mixed = parts[0].tokens, are_mixed(parts)
        if count > MAX_TOKENS or any(part.tokens != count for part in parts[: -1 if is_mixed else None]):
            raise ValueError(f"parts of {[part.tokens for part in parts]} tokens in one step")
        is_decode = not is_mixed and (
            self._kernels is not None or all(part.rows == part.tokens for part in parts)
        )
        if is_decode:
            self.tokens += len(parts)
        if self._kernels is None:
            logits = self._functional(parts, tokens, is_decode=is_decode)
        elif is_decode:
            logits = self._decode(parts, tokens)
        else:
            hidden = self._model.decoder.hidden(tokens, self.ops, self._mix(parts))
            logits = self._logits(parts, hidden)
        for part in parts:
            part.table.length += part.tokens
        return logits

    def fill(self, part: Part, ids: Sequence[int], *, may_trace: bool = False) -> mx.array:
        """Compute a chunk of a prompt alone, of tokens `ids`; as `step`. `may_trace`: nobody waits for it."""
        if part.tokens <= MAX_TOKENS and part.rows:
            return self.step([part], self.staging.token_ids(ids))
        if self._kernels is None:
            logits = self._functional([part], self.staging.token_ids(ids), is_decode=False)
        elif self._is_traced(part, may_trace=may_trace):
            hidden, first = self._chunks(part.table, ids), part.tokens - part.rows
            logits = self._chunks.logits(hidden[first : part.tokens]) if part.rows else self._no_logits
        else:
            padded = self.staging.token_ids((*ids, *[0] * (self._rows_of(part) - part.tokens)))
            hidden = self._model.decoder.hidden(padded, self.ops, self.attend(part, padded.size))
            logits = self._logits([part], hidden[: part.tokens])
        part.table.length += part.tokens
        return logits

    def _rows_of(self, part: Part) -> int:
        """Rows of a chunk's products: rounded where a device prepares itself for them, as attention tells."""
        is_odd = part.tokens > MAX_TOKENS and not is_common(part.table.length, part.tokens)
        return product_rows(part.tokens) if self._pads and is_odd else part.tokens

    def _is_traced(self, part: Part, *, may_trace: bool) -> bool:
        """Whether it goes through the model as a traced chunk: at rounded lengths, that were met before."""
        begin, tokens = part.table.length, part.tokens
        is_odd = self._rounds and tokens <= LONGEST and not is_common(begin, tokens)
        return is_odd and (may_trace or self._chunks.is_traced(begin, tokens))

    def advance(self, filling: Filling, layers: int) -> mx.array | None:
        """Compute the next `layers` of a chunk; what is there of it is in `filling.x`.

        Returns float32 logits (rows, vocab) with the last, when its table gets longer, and None before it.

        Who does not look ahead waits: a write sent before would have to copy what a step reads. Who does
        sends them apart, so that answers' launches stay the same (docs/measured/beside-a-prompt-gpu.md).
        """
        part, decoder, x = filling.part, self._model.decoder, filling.x
        if x is None and layers >= self.layers:
            filling.layer = self.layers
            return self.fill(part, filling.tokens)
        end = min(filling.layer + layers, self.layers)
        part.table.is_read = end < self.layers
        if self._host is not None and self._host.takes([part]):
            filling.x = self._host.through(filling, range(filling.layer, end), self.staging)
        else:
            attend = filling.attend = filling.attend or self.attend(part)
            x = decoder.embed(self.staging.token_ids(filling.tokens), self._prompt_ops) if x is None else x
            filling.x = decoder.through(x, self._prompt_ops, attend, range(filling.layer, end))
        filling.layer = end
        (mx.async_eval if self.looks_ahead else mx.eval)(filling.x)
        if end < self.layers:
            return None
        part.table.length += part.tokens
        return self._logits([part], filling.x)

    def advance_aside(self, filling: Filling, seconds: float = 0.0) -> mx.array | None:
        """Go on with a chunk in a process of its own, and wait `seconds` for it at most; as `advance`."""
        return self._functional.advance_aside(filling, seconds)

    def wait_for_aside(self, filling: Filling, seconds: float) -> None:
        """Leave the processors to its chunk until there is news of it, or so long."""
        self._functional.wait_for_aside(filling, seconds)

    def prefill(self, table: PageTable, tokens: Sequence[int]) -> None:
        """Compute `tokens` behind those of `table`, and wait for them.

        Raises OutOfPages when the arena cannot hold them.
        """
        self._model.memory.grow(table, table.length + len(tokens))
        self.fill(Part(table, len(tokens), rows=0), tokens)
        mx.eval(self.results)

    def next_logits(self, table: PageTable, tokens: Sequence[int]) -> mx.array:
        """Float32 logits (vocab,) that follow `tokens` behind `table`'s, not evaluated. Raises OutOfPages."""
        self._model.memory.grow(table, table.length + len(tokens))
        return self.fill(Part(table, len(tokens)), tokens)[0]

    def decode(self, tables: Sequence[PageTable], tokens: mx.array) -> mx.array:
        """Float32 logits (tokens, vocab) after the next tokens of several sequences; not evaluated.

        Args:
            tables: of the sequences; each gets as many tokens.
            tokens: uint32 (sequences · n,), n from 1 to 8, a sequence's tokens together.

        Raises OutOfPages, with no page allocated for the sequence it happened at.
        """
        count = tokens.size // len(tables)
        for table in tables:
            self._model.memory.grow(table, table.length + count)
        return self.step([Part(table, count, count) for table in tables], tokens)

    def pick(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """The likeliest token of each row of logits (rows, vocab), and log Σ exp(logits); not evaluated.

        Returns:
            Tokens, uint32 (rows,), the lowest id among equals, and float32 (rows,).
        """
        return (self._functional if self._kernels is None else self._step).pick(logits)

    @property
    def draws_on_host(self) -> bool:
        """Whether next tokens are drawn by the host, as a CPU's steps are computed by it."""
        return self._host is not None

    @property
    def is_lazy(self) -> bool:
        """Whether decode steps are built first, and computed when somebody waits for them."""
        kernels = self._model.kernels
        return self._host is None if kernels is None else kernels.is_lazy

    @property
    def decode_ops(self) -> LinearOps[Any]:
        """What computes the linear parts of decode steps."""
        return self.ops if self._host is None else self._host.ops

    def attend_decode(self, part: Part) -> Attend[Any]:
        """Attention for a decode step of `part`, for which there is room in its pages."""
        return self.attend(part) if self._host is None else self._host.attend([part])

    def attend(self, part: Part, rows: int = 0) -> Attend[mx.array]:
        """Attention for some tokens of one sequence, for which there is room in its pages.

        `rows`: with padding behind the tokens; 0 for none.
        """
        model, kernels, table = self._model, self._kernels, part.table
        if kernels is None:
            return self._functional.attend([part])
        angles = model.decoder.rope.table(table.length + part.tokens)
        attention, arena, pager, rows = kernels.attention, model.arena, model.pager, rows or part.tokens
        if part.tokens > MAX_TOKENS:
            return InPlacePrefill(attention, arena, pager, table, part.tokens, angles, rows, self.staging)
        batches = BatchTables(pager.page_size, kernels.partition, self.staging)
        return InPlaceStep(attention, arena.pools, batches.batch([table], part.tokens), angles)

    def _mix(self, parts: Sequence[Part]) -> Attend[mx.array]:
        """Attention for a token each of some sequences, and several of the last one."""
        prompt = self.attend(parts[-1])
        if self._kernels is None:
            raise AssertionError("without kernels a step is mixed by FunctionalStep")
        tables = [part.table for part in parts[:-1]]
        batch = self._batches.batch(tables, 1)
        self._batches.stepped(batch.lengths + 1)
        angles = self._model.decoder.rope.table(max(table.length for table in tables) + 1)
        answers = InPlaceStep(self._kernels.attention, self._model.arena.pools, batch, angles)
        return InPlaceMix(answers, len(tables), prompt)

    def _decode(self, parts: Sequence[Part], tokens: mx.array) -> mx.array:
        """As many tokens of each sequence, at most 8: the step that is traced once."""
        count, tables = parts[0].tokens, [part.table for part in parts]
        longest = max(table.length for table in tables) + count
        logits, lengths = self._step(tokens, self._batches.batch(tables, count), longest)
        self._batches.stepped(lengths)
        return wanted_rows(parts, logits)

    def _logits(self, parts: Sequence[Part], hidden: mx.array) -> mx.array:
        """Of the rows that are wanted; hidden: (tokens, width) of all parts."""
        if not any(part.rows for part in parts):
            return self._no_logits
        return self._model.decoder.logits(wanted_rows(parts, hidden), self.ops)
