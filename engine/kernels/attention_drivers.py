"""A few layers of attention on either set, with pages of their own: what trials of the sets drive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from engine.kv.arena import Arena
from engine.kv.arena_pools import ArenaPools, PoolArrays
from engine.kv.in_place import AttentionKernels, Batch, BatchTables, InPlacePrefill, InPlaceStep
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.kv.step import FunctionalStep
from engine.layers.attention import AttentionLayer
from engine.layers.rope import Rope
from engine.loading.config import RopeConfig
from engine.steps.staging import Staging
from metal.attention_shape import AttentionShape, HeadNorms
from metal.candidates_parts import normal
from metal.executors import EmulatedExecutor, Executor

Rows = Sequence[mx.array]
"""Projections (tokens, qkv_width) of each layer."""


class Driver(Protocol):
    """Layers of attention on one of the sets, with pages of their own."""

    pager: Pager

    def prefill(self, table: PageTable, rows: Rows) -> None:
        """Put further tokens of a sequence into pages."""
        ...

    def decode(self, tables: Sequence[PageTable], rows: Rows) -> list[mx.array]:
        """One more token of each sequence; attention (sequences, heads · head_dim) of each layer."""
        ...

    def fill(self, tokens: int) -> None:
        """Make one sequence of so many tokens, for `repeat`."""
        ...

    def repeat(self, x: mx.array) -> mx.array:
        """The step after the tokens of `fill`, again, when x (1, heads · head_dim) is there."""
        ...


class _Layers:
    """What both sets work on."""

    def __init__(self, shape: AttentionShape, layers: int, pages: int) -> None:
        self.pager = Pager(pages, shape.page_size)
        self._shape, self._table = shape, PageTable()
        self._rope = plain_rope(shape)
        self._layers = [
            AttentionLayer(index, shape, self._rope, head_norms(shape, index)) for index in range(layers)
        ]
        self._arena = Arena(layers, shape.kv_heads, shape.head_dim, shape.page_size, shape.dtype)
        self._base: list[mx.array] = []

    def fill(self, tokens: int) -> None:
        """See `Driver.fill`; the pages hold zeros."""
        self._room(self._table, tokens + 1)
        self._table.length = tokens
        self._base = [
            normal((1, self._shape.qkv_width), self._shape.dtype, n) for n in range(len(self._layers))
        ]
        mx.eval(self._base)

    def _room(self, table: PageTable, tokens: int) -> None:
        self.pager.grow(table, tokens)
        self._arena.reserve(self.pager.total_pages, self.pager.total_pages)

    def _through(self, attend: FunctionalStep | InPlaceStep | InPlacePrefill, rows: Rows) -> list[mx.array]:
        """Attention of each layer; as in a model, none begins before the last one's is there."""
        outs: list[mx.array] = []
        for layer, projected in zip(self._layers, rows, strict=False):
            outs.append(attend(layer, _after(projected, outs[-1]) if outs else projected))
        return outs


class FunctionalDriver(_Layers):
    """MLX's own operations; each step is evaluated before the next is built."""

    def prefill(self, table: PageTable, rows: Rows) -> None:
        """See `Driver.prefill`."""
        self._step(table, rows)
        mx.eval(self._arena.state())

    def decode(self, tables: Sequence[PageTable], rows: Rows) -> list[mx.array]:
        """See `Driver.decode`."""
        each = [
            self._step(table, [row[number : number + 1] for row in rows])
            for number, table in enumerate(tables)
        ]
        outs = [mx.concatenate(list(parts)) for parts in zip(*each, strict=True)]
        mx.eval(outs)
        return outs

    def repeat(self, x: mx.array) -> mx.array:
        """See `Driver.repeat`."""
        step = FunctionalStep(self._arena, [(self._table, 1)])
        out = self._through(step, [_after(self._base[0], x), *self._base[1:]])[-1]
        mx.eval(out)
        return out

    def _step(self, table: PageTable, rows: Rows) -> list[mx.array]:
        tokens = rows[0].shape[0]
        self._room(table, table.length + tokens)
        outs = self._through(FunctionalStep(self._arena, [(table, tokens)]), rows)
        table.length += tokens
        return outs


class InPlaceDriver(_Layers):
    """Kernels that work on the pages themselves; nothing is waited for."""

    def __init__(
        self, shape: AttentionShape, layers: int, pages: int, kernels: AttentionKernels, executor: Executor
    ) -> None:
        super().__init__(shape, layers, pages)
        self._kernels = {shape: kernels}
        self._staging = Staging.for_device()
        self._batches = BatchTables(shape.page_size, kernels.decode.partition, self._staging)
        self._again = self._trace if isinstance(executor, EmulatedExecutor) else mx.compile(self._trace)

    def prefill(self, table: PageTable, rows: Rows) -> None:
        """See `Driver.prefill`."""
        tokens = rows[0].shape[0]
        self._room(table, table.length + tokens)
        angles = self._rope.table(table.length + tokens)
        arena, pager = self._arena, self.pager
        step = InPlacePrefill(
            self._kernels, arena, pager, table, tokens, angles, rows=tokens, staging=self._staging
        )
        mx.async_eval(self._through(step, rows), self._arena.pools.fence)
        table.length += tokens

    def decode(self, tables: Sequence[PageTable], rows: Rows) -> list[mx.array]:
        """See `Driver.decode`."""
        for table in tables:
            self._room(table, table.length + 1)
        batch, pools = self._batches.batch(tables, 1), self._arena.pools
        angles = self._rope.table(max(table.length for table in tables) + 1)
        step = InPlaceStep(self._kernels, pools, batch, angles)
        outs = self._through(step, rows)
        self._batches.stepped(batch.lengths + 1)
        for table in tables:
            table.length += 1
        mx.async_eval(outs, pools.fence)
        return outs

    def fill(self, tokens: int) -> None:
        """See `Driver.fill`."""
        super().fill(tokens)
        self._batch = self._batches.batch([self._table], 1)
        self._angles = self._rope.table(tokens + 1)

    def repeat(self, x: mx.array) -> mx.array:
        """See `Driver.repeat`."""
        pools, batch = self._arena.pools, self._batch
        out, pools.fence = self._again(x, self._base, batch.tables, batch.lengths, self._angles, pools.arrays)
        mx.async_eval(out)
        return out

    def _trace(
        self,
        x: mx.array,
        base: list[mx.array],
        tables: mx.array,
        lengths: mx.array,
        angles: mx.array,
        arrays: PoolArrays,
    ) -> tuple[mx.array, mx.array]:
        pools = ArenaPools.of(arrays)
        step = InPlaceStep(self._kernels, pools, Batch(tables, lengths), angles)
        return self._through(step, [_after(base[0], x), *base[1:]])[-1], pools.fence


def _after(rows: mx.array, before: mx.array) -> mx.array:
    """`rows`, when `before`, with as many, is there; NaN where that begins with one."""
    return rows + 0 * before[:, :1]


def plain_rope(shape: AttentionShape) -> Rope:
    """Of every layer here: base 10,000, not scaled."""
    return Rope(RopeConfig(), shape.head_dim)


def head_norms(shape: AttentionShape, layer: int) -> HeadNorms | None:
    """Seeded weights around 1, where the shape has norms."""
    if shape.norm_epsilon is None:
        return None
    return HeadNorms(*(normal((shape.head_dim,), shape.dtype, 100 + 2 * layer + n, 0.2) + 1 for n in (0, 1)))
