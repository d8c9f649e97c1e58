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

_SIMDGROUPS = 8


class AttentionReduce:
    """Joins parts that one kind of attention left: (rows, parts, head_dim) and their maxima and sums."""

    def __init__(
        self, executor: Executor, launches: Counter[str], shape: AttentionShape, *, ragged: bool
    ) -> None:
        """`ragged`: sequences have any number of new tokens each, as prefill has them."""
        self._shape = shape
        self._kernel = Kernel(
            "attention_reduce",
            inputs=(
                *("partial", "sums", "offsets" if ragged else "lengths", "sizes"),
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

    def of_partitions(
        self,
        partial: mx.array,
        sums: mx.array,
        lengths: mx.array,
        *,
        tokens: int,
        partition: int,
        sinks: mx.array | None,
    ) -> mx.array:
        """What decode attention left, of `tokens` new tokens a sequence; (tokens, heads · head_dim).

        Args:
            partial: float32 (tokens · heads, partitions, head_dim), not yet divided.
            sums: float32 (tokens · heads, partitions, 2): maxima and sums.
            lengths: of the sequences before it, int32, at least 8.
            tokens: a sequence's new ones.
            partition: keys of a partition.
            sinks: (heads,), with `shape.sinks`.
        """
        sizes = device_integers(partial.shape[1], self._shape.window or 0)
        inputs = {"partial": partial, "sums": sums, "lengths": lengths, "sizes": sizes}
        return self._joined(inputs, {"TOKENS": tokens, "PARTITION": partition}, sinks)

    def of_parts(
        self, partial: mx.array, sums: mx.array, offsets: mx.array, sequences: int, sinks: mx.array | None
    ) -> mx.array:
        """What prefill attention left, with the same arrays; `offsets` as it takes them."""
        sizes = device_integers(partial.shape[1], sequences)
        inputs = {"partial": partial, "sums": sums, "offsets": offsets, "sizes": sizes}
        return self._joined(inputs, {}, sinks)

    def _joined(
        self, inputs: Mapping[str, mx.array], template: Mapping[str, int], sinks: mx.array | None
    ) -> mx.array:
        shape, rows = self._shape, inputs["partial"].shape[0]
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
