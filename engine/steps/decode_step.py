"""The decode step on kernels: 1 to 8 more tokens for each sequence, traced once and replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import mlx.core as mx

from engine.kernels.kernels import Kernels
from engine.kv.arena import Arena
from engine.kv.arena_pools import ArenaPools, PoolArrays
from engine.kv.in_place import Batch, InPlaceStep
from engine.layers.decoder import Decoder
from engine.layers.ops import LinearOps
from engine.steps.graph import operations

Shapes = tuple[tuple[int, ...], ...]


class DecodeStep:
    """Runs a batch through the model in place.

    Under mx.compile the Python of a step runs once for each set of shapes: batch, tokens, width of the page
    tables, positions. The last two only ever double. The arena may grow as it likes.

    Attributes:
        launches: of all steps so far, by kernel; MLX's own operations by their name, with "mlx." before it.
    """

    def __init__(self, decoder: Decoder, arena: Arena, kernels: Kernels, ops: LinearOps[mx.array]) -> None:
        self.launches: Counter[str] = Counter()
        self._decoder, self._arena, self._kernels, self._ops = decoder, arena, kernels, ops
        self._run: Callable[..., tuple[mx.array, mx.array, mx.array]] = (
            mx.compile(self._trace) if kernels.is_lazy else self._trace
        )
        self._traced: dict[Shapes, Counter[str]] = {}
        self._pick: Callable[[mx.array], tuple[mx.array, mx.array]] = mx.compile(kernels.pick)
        if not kernels.is_lazy:
            self._pick = kernels.pick

    def __call__(self, tokens: mx.array, batch: Batch, positions: int) -> tuple[mx.array, mx.array]:
        """Float32 logits (tokens, vocab) and the lengths after the step, as in Batch; not evaluated.

        The arena's fence is then that of this step.

        Args:
            tokens: uint32 (sequences · tokens,), a sequence's tokens together.
            batch: whose pages are there already.
            positions: one more than the largest position in use.
        """
        pools, angles = self._arena.pools, self._decoder.rope.table(positions)
        before = self._kernels.launches.copy()
        logits, lengths, fence = self._run(tokens, batch.tables, batch.lengths, angles, pools.arrays)
        shapes = (tokens.shape, batch.tables.shape, angles.shape)
        if launched := self._kernels.launches - before:
            self._traced[shapes] = launched + operations([logits, lengths, fence])
        self.launches.update(self._traced[shapes])
        pools.fence = fence
        return logits, lengths

    def pick(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """The likeliest token of each row of (rows, vocab) logits, and the log of its mass: see Pick."""
        self.launches.update(self._kernels.pick_launches)
        return self._pick(logits)

    def _trace(
        self,
        tokens: mx.array,
        tables: mx.array,
        lengths: mx.array,
        angles: mx.array,
        arrays: PoolArrays,
    ) -> tuple[mx.array, mx.array, mx.array]:
        pools = ArenaPools.of(arrays)
        step = InPlaceStep(self._kernels.attention, pools, Batch(tables, lengths), angles)
        hidden = self._decoder.hidden(tokens, self._ops, step)
        count = tokens.size // tables.shape[0]
        return self._decoder.logits(hidden, self._ops), lengths + count, pools.short_fence
