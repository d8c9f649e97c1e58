"""Runs the model on pages: one prefill chunk or one decode step at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.decode_step import DecodeStep
from engine.graph import GraphCounter
from engine.kv.in_place import BatchTables, InPlacePrefill
from engine.kv.pager import PageTable
from engine.kv.step import FunctionalStep, StepForm
from engine.layers.ops import PICK_OPERATIONS, BuiltinOps, LinearOps, pick
from engine.loading.model import LoadedModel
from metal.decode_attention import MAX_TOKENS


@dataclass(frozen=True, slots=True)
class _Sent:
    """A prefill that the device may still be at: its tokens, and the fences it yields at its end."""

    tokens: int
    fences: tuple[mx.array, ...]


class Runner:
    """The forward passes of one loaded model, on its kernels or, where it has none, on MLX's own operations.

    Logits are not evaluated when they are returned. With kernels (`looks_ahead`) the next step may be built
    from tokens that are not evaluated either; without, logits must be evaluated first: the arena's writes
    hang on them.

    Attributes:
        tokens: that decode steps were for: one of each sequence in each step.
    """

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._ops: LinearOps = BuiltinOps() if model.kernels is None else model.kernels.ops
        self._kernels = model.kernels if model.kernels is not None and model.kernels.is_in_place else None
        self.tokens = 0
        self._launches: Counter[str] = Counter()
        self._operations = GraphCounter()
        self._sent: _Sent | None = None
        if self._kernels is not None:
            self._step = DecodeStep(model.decoder, model.arena, self._kernels, self._kernels.ops)
            self._batches = BatchTables(model.pager.page_size, self._kernels.partition)

    @property
    def looks_ahead(self) -> bool:
        """Whether a step may be built while the one before it is still running."""
        return self._kernels is not None

    @property
    def launches(self) -> Counter[str]:
        """What decode steps have launched so far, by name; MLX's own operations with "mlx." before it."""
        return self._launches if self._kernels is None else self._step.launches

    def new_table(self) -> PageTable:
        """An empty page table."""
        return PageTable()

    def prefill(self, table: PageTable, tokens: Sequence[int], *, overlap: bool = False) -> int:
        """Compute `tokens` behind those of `table` and store their keys and values.

        With `overlap`, and kernels, it returns when the prefill before this one is done, so that the device
        never waits for this thread; else when this one is. Returns how many tokens that was, 0 when none was
        waited for.

        Raises OutOfPages when the arena cannot hold them.
        """
        self._hidden(table, tokens)
        if not overlap or self._kernels is None:
            mx.eval(self._model.arena.state())
            self._sent = None
            return len(tokens)
        fences = tuple(self._model.arena.pools.fences)
        mx.async_eval(fences)
        before, self._sent = self._sent, _Sent(len(tokens), fences)
        if before is None:
            return 0
        mx.eval(before.fences)
        return before.tokens

    @property
    def tokens_in_flight(self) -> int:
        """Tokens of the prefill that was sent to the device and not waited for; 0 without one."""
        return 0 if self._sent is None else self._sent.tokens

    def next_logits(self, table: PageTable, tokens: Sequence[int]) -> mx.array:
        """Like prefill, and the float32 logits (vocab,) that follow the last token."""
        self._sent = None  # whoever reads the logits waits for what was sent before
        if len(tokens) <= (1 if self._kernels is None else MAX_TOKENS):
            return self.decode([table], mx.array(tuple(tokens), dtype=mx.uint32))[-1]
        hidden = self._hidden(table, tokens)
        return self._model.decoder.logits(hidden[-1:], self._ops)[0]

    def decode(self, tables: Sequence[PageTable], tokens: mx.array) -> mx.array:
        """Float32 logits (tokens, vocab) after the next tokens of several sequences.

        Args:
            tables: of the sequences; each gets as many tokens.
            tokens: uint32 (sequences · n,), n from 1 to 8, a sequence's tokens together.

        Raises:
            OutOfPages: with no page allocated for the sequence it happened at.
        """
        count = tokens.size // len(tables)
        self.tokens += len(tables)
        if self._kernels is None:
            return self._decode_functional(tables, tokens)
        for table in tables:
            self._make_room(table, count)
        longest = max(table.length for table in tables) + count
        logits, lengths = self._step(tokens, self._batches.batch(tables, count), longest)
        self._batches.stepped(lengths)
        for table in tables:
            table.length += count
        return logits

    def pick(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """The likeliest token of each row of logits (rows, vocab), and log Σ exp(logits); not evaluated.

        Returns:
            Tokens, uint32 (rows,), the lowest id among equals, and float32 (rows,).
        """
        if self._kernels is not None:
            return self._step.pick(logits)
        self._launches.update(PICK_OPERATIONS)
        return pick(logits)

    def trim(self, table: PageTable) -> None:
        """Give back pages that every layer's sliding window has left."""
        window = self._model.config.largest_window
        if window is not None:
            self._model.pager.release_before(table, table.length - window + 1)

    def free(self, table: PageTable) -> None:
        """Give back all pages of `table`."""
        self._model.pager.free(table)

    def drop_pages(self) -> None:
        """Drop the arena's arrays: after a device error, what they hold cannot be trusted."""
        self._model.arena.release()

    def _hidden(self, table: PageTable, tokens: Sequence[int]) -> mx.array:
        ids = mx.array(tuple(tokens), dtype=mx.uint32)
        if self._kernels is None:
            return self._functional(table, ids)[0]
        self._make_room(table, len(tokens))
        model = self._model
        angles = model.decoder.rope.table(table.length + len(tokens))
        step = InPlacePrefill(self._kernels.attention, model.arena, model.pager, table, len(tokens), angles)
        hidden = model.decoder.hidden(ids, self._ops, step)
        table.length += len(tokens)
        return hidden

    def _decode_functional(self, tables: Sequence[PageTable], tokens: mx.array) -> mx.array:
        kernels = self._model.kernels
        before = Counter[str]() if kernels is None else kernels.launches.copy()
        parts = mx.split(tokens, len(tables))
        steps = [self._functional(table, part) for table, part in zip(tables, parts, strict=True)]
        logits = self._model.decoder.logits(mx.concatenate([hidden for hidden, _ in steps]), self._ops)
        self._launches.update(self._operations(tuple(form for _, form in steps), logits))
        if kernels is not None:
            self._launches.update(kernels.launches - before)
        return logits

    def _functional(self, table: PageTable, tokens: mx.array) -> tuple[mx.array, StepForm]:
        """Last hidden states, and the form of the step."""
        model = self._model
        self._make_room(table, tokens.size)
        step = FunctionalStep(model.arena, model.pager, table, tokens.size)
        hidden = model.decoder.hidden(tokens, self._ops, step)
        table.length += tokens.size
        return hidden, step.form

    def _make_room(self, table: PageTable, tokens: int) -> None:
        model = self._model
        model.pager.grow(table, table.length + tokens)
        model.arena.reserve(model.pager.high_water, model.pager.total_pages)
