"""A short chunk of a prompt on kernels, all layers in one pass: what a chat's next turn computes first.

Its lengths come once, so it is computed at rounded ones, and traced once for each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.kernels import Kernels
from engine.kv.arena import Arena
from engine.kv.arena_pools import ArenaPools, PoolArrays
from engine.kv.in_place_chunk import (
    ChunkForm,
    ChunkShape,
    InPlaceChunk,
    unpacked,
)
from engine.kv.page_table import PageTable
from engine.layers.decoder import Decoder
from engine.layers.ops import LinearOps
from engine.staging import Staging
from metal.page_copy import PageCopy

LONGEST = 512
"""Tokens up to which a chunk is computed this way: more take a GPU longer than its host."""

MET_AT_REST = 32768
"""Tokens of a sequence up to which nothing is traced or made ready while somebody waits."""

PIECE = 4
"""Layers after which the device begins with what is there of a pass: it is at work while the next are sent.

Fewer would be through before those are.
"""


class ChunkStep:
    """Runs chunks through the model in place, and sends what there is of a pass a few layers at a time.

    Under mx.compile the Python of a pass runs once for each set of shapes: rows, rounded lengths, positions.
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
        self._run: Callable[..., tuple[list[mx.array], list[mx.array]]] = self._trace
        self._logits: Callable[[mx.array], mx.array] = self._trace_logits
        if kernels.is_lazy:
            self._run, self._logits = mx.compile(self._trace), mx.compile(self._trace_logits)

    def is_traced(self, begin: int, tokens: int) -> bool:
        """Whether no Python runs for a chunk of so many tokens, from token `begin` on, but what writes it."""
        form = ChunkForm.of(begin, tokens, self._kernels.attention)
        positions = self._decoder.rope.table(form.end).shape[0]
        return not self._kernels.is_lazy or (form.shape, positions) in self._traced

    def __call__(self, table: PageTable, ids: Sequence[int]) -> mx.array:
        """Last hidden states (rows, width), at least as many rows as ids; what is behind them means nothing.

        On a GPU the last layers are not evaluated, and the others are sent off. The arena's fences are then
        those of this pass.

        Args:
            table: of the sequence, whose pages are there already.
            ids: of the chunk's tokens.
        """
        form = ChunkForm.of(table.length, len(ids), self._kernels.attention)
        (pools, copied), angles = self._arena.take_copy(), self._decoder.rope.table(form.end)
        written = self._staging.integers(form.numbers(table, ids, self._arena.page_size, copied))
        states, pools.fences[:] = self._run(form.shape, form.windows, written, angles, pools.arrays)
        *earlier, hidden = states
        if self._kernels.is_lazy:
            for state in earlier:
                mx.async_eval(state)
        self._traced.add((form.shape, angles.shape[0]))
        return hidden

    def logits(self, hidden: mx.array) -> mx.array:
        """Float32 logits (rows, vocab) of some of what a pass returned, (rows, width); not evaluated."""
        return self._logits(hidden)

    def _trace(
        self,
        shape: ChunkShape,
        windows: tuple[int | None, ...],
        written: mx.array,
        angles: mx.array,
        arrays: PoolArrays,
    ) -> tuple[list[mx.array], list[mx.array]]:
        """Hidden states (rows, width) behind every PIECE layers and behind the last, and the next fences."""
        pools, decoder, states = ArenaPools.of(arrays), self._decoder, list[mx.array]()
        ids, numbers = unpacked(shape, windows, decoder.attention[0].shape.dtype, written, angles)
        chunk = InPlaceChunk(self._kernels.ops, self._kernels.attention, pools, shape, windows, numbers)
        pools.copy_page(self._copiers, numbers.pair)
        x, layers = decoder.embed(ids, self._ops), len(decoder.attention)
        for first in range(0, layers, PIECE):
            x = decoder.through(x, self._ops, chunk, range(first, min(first + PIECE, layers)))
            states.append(x)
        return states, pools.fences

    def _trace_logits(self, hidden: mx.array) -> mx.array:
        return self._decoder.logits(hidden, self._ops)
