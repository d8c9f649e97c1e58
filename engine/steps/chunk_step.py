"""A short chunk of a prompt on kernels, all layers in one pass: what a chat's next turn computes first.

Its lengths come once, so it is computed at rounded ones, and traced once for each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

import mlx.core as mx

from engine.kernels.kernels import Kernels
from engine.kv.arena import Arena
from engine.kv.arena_pools import ArenaPools, PoolArrays
from engine.kv.in_place_chunk import (
    ChunkForm,
    ChunkNumbers,
    ChunkShape,
    InPlaceChunk,
    NumberArrays,
    room_of,
    unpacked,
)
from engine.kv.page_table import PageTable
from engine.layers.decoder import Decoder
from engine.layers.ops import LinearOps
from engine.steps.staging import Staging
from metal.page_copy import PageCopy

LONGEST = 512
"""Tokens up to which a chunk is computed this way: more take a GPU longer than its host."""

MET_AT_REST = 32768
"""Tokens of a sequence up to which nothing is traced or made ready while somebody waits."""

PIECES = (2, 4)
"""Layers after which the device begins with what is there of a pass, the last as often as there are more.

It is at work while the next are sent: fewer would be through before those are.
"""

Windows = tuple[int | None, ...]
"""Of ChunkForm."""
Behind = tuple[mx.array, mx.array]
"""What a piece leaves: hidden states (rows, width), and the fence."""


class ChunkStep:
    """Runs chunks through the model in place; each piece, a few layers, is sent before the next is made.

    Under mx.compile the Python of a piece runs once for each set of shapes: rows, rounded lengths, positions.
    """

    def __init__(
        self,
        decoder: Decoder,
        arena: Arena,
        kernels: Kernels,
        copiers: Sequence[PageCopy],
        staging: Staging,
    ) -> None:
        """`copiers`: of each layer's pages."""
        self._decoder, self._arena, self._kernels, self._staging = decoder, arena, kernels, staging
        self._ops: LinearOps[mx.array] = kernels.ops
        self._copiers = copiers
        self._traced = set[tuple[ChunkShape, int]]()
        first, *others = pieces(len(decoder.attention))
        compiled = mx.compile if kernels.is_lazy else _as_it_is
        self._first: Callable[..., tuple[Behind, NumberArrays]] = compiled(partial(self._begin, first))
        self._lowest = first
        self._others: list[tuple[range, Callable[..., Behind]]] = [
            (piece, compiled(partial(self._go_on, piece))) for piece in others
        ]
        self._logits: Callable[[mx.array], mx.array] = compiled(self._trace_logits)

    def is_traced(self, begin: int, tokens: int) -> bool:
        """Whether no Python runs for a chunk of so many tokens, from token `begin` on, but what writes it."""
        form = ChunkForm.of(begin, tokens, self._kernels.attention)
        positions = self._decoder.rope.table(form.end).shape[0]
        return not self._kernels.is_lazy or (form.shape, positions) in self._traced

    def __call__(self, table: PageTable, ids: Sequence[int]) -> mx.array:
        """Last hidden states (rows, width), at least as many rows as ids; what is behind them means nothing.

        On a GPU the last layers are not evaluated, and the others are sent off. The arena's fence is then of
        this pass.

        Args:
            table: of the sequence, whose pages are there already.
            ids: of the chunk's tokens.
        """
        form = ChunkForm.of(table.length, len(ids), self._kernels.attention)
        size, angles = self._arena.page_size, self._decoder.rope.table(form.end)
        pools, copied = self._arena.take_copy(table.pages[table.length // size])
        numbers = form.numbers(table, ids, size, self._arena.pages * size, copied)
        shape, windows = form.shape, form.windows
        most = 1 << (room_of(shape, size).written - 1).bit_length()
        going = ArenaPools.of(pools.arrays)
        (x, going.fence), arrays = self._staging.lend(
            numbers,
            most,
            lambda written: self._first(shape, windows, written, angles, going.part(self._lowest)),
            lambda made: made[1][0][0],
        )
        for layers, piece in self._others:
            if self._kernels.is_lazy:
                mx.async_eval(x)
            x, going.fence = piece(shape, windows, x, arrays, going.part(layers))
        pools.fence = going.fence
        self._traced.add((shape, angles.shape[0]))
        return x

    def logits(self, hidden: mx.array) -> mx.array:
        """Float32 logits (rows, vocab) of some of what a pass returned, (rows, width); not evaluated."""
        return self._logits(hidden)

    def _begin(
        self,
        layers: range,
        shape: ChunkShape,
        windows: Windows,
        written: mx.array,
        angles: mx.array,
        arrays: PoolArrays,
    ) -> tuple[Behind, NumberArrays]:
        """The first piece: tokens through `layers`; and the chunk's numbers."""
        dtype = self._decoder.attention[0].shape.dtype
        room = room_of(shape, self._arena.page_size)
        ids, numbers = unpacked(self._kernels.unpack, room, shape, windows, dtype, written, angles)
        pools = ArenaPools.of(arrays)
        x = self._decoder.embed(ids, self._ops)
        return self._through(layers, shape, windows, x, numbers, pools), numbers.arrays

    def _go_on(
        self,
        layers: range,
        shape: ChunkShape,
        windows: Windows,
        x: mx.array,
        numbers: NumberArrays,
        arrays: PoolArrays,
    ) -> Behind:
        """Another: what one before it made, through `layers`."""
        pools = ArenaPools.of(arrays, layers.start)
        return self._through(layers, shape, windows, x, ChunkNumbers.of(numbers), pools)

    def _through(
        self,
        layers: range,
        shape: ChunkShape,
        windows: Windows,
        x: mx.array,
        numbers: ChunkNumbers,
        pools: ArenaPools,
    ) -> Behind:
        chunk = InPlaceChunk(self._kernels.ops, self._kernels.attention, pools, shape, windows, numbers)
        own = slice(layers.start, layers.stop)
        chunk.copy_page(x, self._copiers[own], self._decoder.projections[own])
        x, is_last = self._decoder.through(x, self._ops, chunk, layers), layers.stop == len(self._copiers)
        return x, pools.short_fence if is_last else pools.fence

    def _trace_logits(self, hidden: mx.array) -> mx.array:
        return self._decoder.logits(hidden, self._ops)


def pieces(layers: int) -> list[range]:
    """The layers of each piece of a pass through so many."""
    made, sizes = [range(0)], chain(PIECES, repeat(PIECES[-1]))
    while made[-1].stop < layers:
        made.append(range(made[-1].stop, min(made[-1].stop + next(sizes), layers)))
    return made[1:]


def _as_it_is(run: Callable[..., Any]) -> Callable[..., Any]:
    """In the place of mx.compile, where a launch computes at once."""
    return run
