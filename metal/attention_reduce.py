"""Launches attention_reduce.metal: parts of an attention, each over some of the keys, become one.

The joining of softmaxes is that of Milakov and Gimelshein (2018, arXiv:1805.02867).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.constants import device_integers
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel

_SIMDGROUPS = 4


class AttentionReduce:
    """Joins parts that one kind of attention left, with their maxima and sums: see `parts`."""

    def __init__(
        self, executor: Executor, launches: Counter[str], shape: AttentionShape, *, ragged: bool
    ) -> None:
        """`ragged`: sequences have any number of new tokens each, as prefill has them."""
        self._shape = shape
        self._kernel = Kernel(
            "attention_reduce",
            inputs=(
                *("partial", "sequences" if ragged else "lengths", "sizes"),
                *(("sinks",) if shape.sinks else ()),
            ),
            outputs=("out",),
            executor=executor,
            launches=launches,
            features={
                "WINDOW": int(shape.window is not None),
                "SINKS": int(shape.sinks),
                "RAGGED": int(ragged),
            },
        )

    def parts(self, tokens: int, parts: int) -> Output:
        """What an attention leaves of so many tokens: all parts, and behind them what each row needs of each.

        One array, as each costs the host a microsecond: float32 (rows · parts · (head_dim + 2),), rows being
        tokens · heads: (rows, parts, head_dim), not yet divided, and then (rows, parts, 2), maxima and sums.
        """
        rows = tokens * self._shape.heads
        return Output((rows * parts * (self._shape.head_dim + 2),), mx.float32)

    def of_partitions(
        self,
        partial: mx.array,
        lengths: mx.array,
        *,
        partitions: int,
        tokens: int,
        partition: int,
        sinks: mx.array | None,
    ) -> mx.array:
        """What decode attention left, of `tokens` new tokens a sequence; (tokens, heads · head_dim).

        Args:
            partial: see `parts`.
            lengths: of the sequences before it, int32, at least 8.
            partitions: how many there are.
            tokens: a sequence's new ones.
            partition: keys of a partition.
            sinks: (heads,), with `shape.sinks`.
        """
        sizes = device_integers(partitions, self._shape.window or 0)
        inputs = {"partial": partial, "lengths": lengths, "sizes": sizes}
        return self._joined(inputs, partitions, {"TOKENS": tokens, "PARTITION": partition}, sinks)

    def of_parts(
        self, partial: mx.array, sequences: mx.array, *, parts: int, sinks: mx.array | None
    ) -> mx.array:
        """What prefill attention left; `sequences` as it takes them."""
        inputs = {"partial": partial, "sequences": sequences, "sizes": device_integers(parts)}
        return self._joined(inputs, parts, {}, sinks)

    def _joined(
        self,
        inputs: Mapping[str, mx.array],
        parts: int,
        template: Mapping[str, int],
        sinks: mx.array | None,
    ) -> mx.array:
        shape = self._shape
        rows = inputs["partial"].size // (parts * (shape.head_dim + 2))
        (out,) = self._kernel(
            dict(inputs) if sinks is None else {**inputs, "sinks": sinks},
            grid=(rows * _SIMDGROUPS * LANES, 1, 1),
            threadgroup=(_SIMDGROUPS * LANES, 1, 1),
            outputs=[Output((rows // shape.heads, shape.heads * shape.head_dim), shape.dtype)],
            template={
                "T": shape.dtype,
                "HEAD_DIM": shape.head_dim,
                "HEADS": shape.heads,
                "SIMDGROUPS": _SIMDGROUPS,
                "VECTORS": -(-shape.head_dim // (4 * LANES)),
                **template,
            },
        )
        return out
