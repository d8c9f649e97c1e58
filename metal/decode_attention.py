"""Launches decode_attention.metal: new tokens written to pages, and attended.

Split keys follow Flash-Decoding (Dao et al. 2023).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import mlx.core as mx

from metal.attention_reduce import AttentionReduce
from metal.attention_shape import AttentionShape, HeadNorms
from metal.constants import device_integers
from metal.decode_cut import DecodeCut, cut_for, sizes
from metal.emulator import CONSTANT_BELOW
from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel
from metal.pools import SMALLEST, Pages, check_arrays
from metal.source import Feature
from metal.touched import Launched, Touched

MAX_TOKENS = 8


class DecodeAttention:
    """Rotates, writes and attends the new tokens of each sequence, in one launch or two."""

    def __init__(
        self, executor: Executor, launches: Counter[str], shape: AttentionShape, cut: DecodeCut | None = None
    ) -> None:
        """Raises KernelError for a shape that the kernel is not written for."""
        shape.check()
        self._executor, self._launches, self._shape = executor, launches, shape
        self._unused_angles = mx.zeros((8,), mx.float32)
        self._cut = cut or DecodeCut()
        if shape.head_dim > 128 and self._cut.simdgroups > 4:
            self._cut = replace(self._cut, simdgroups=4)  # threadgroup memory is 32 KB
        self._attention: dict[tuple[tuple[str, ...], bool, bool], Kernel] = {}
        self._reduce = AttentionReduce(executor, launches, shape, ragged=False)

    @property
    def partition(self) -> int:
        """Keys of a partition: page tables are padded to whole ones."""
        return self._cut.partition

    def form(self, pages: int) -> tuple[DecodeCut, bool, bool]:
        """What is compiled differently for a sequence alone whose page table has room for `pages`.

        Steps of as many tokens run the same kernels exactly where this is the same.
        """
        partitions = pages * self._shape.page_size // self._cut.partition
        cut = cut_for(self._cut, self._shape.kv_heads * partitions)
        return cut, partitions == 1, pages < CONSTANT_BELOW

    def __call__(
        self,
        qkv: mx.array,
        angles: mx.array,
        pages: Pages,
        *,
        norms: HeadNorms | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        """Attends from the new tokens.

        Args:
            qkv: (sequences · tokens, (heads + 2 kv_heads) · head_dim), a sequence's 1 to 8 tokens together.
            angles: float32 (positions, rotary_dims), cosines then sines of every position that is in use.
            pages: where keys and values are, and go.
            norms: with `shape.norm_epsilon`.
            sinks: (heads,), with `shape.sinks`.

        Returns:
            out (sequences · tokens, heads · head_dim), the next fence, too.

        Raises:
            KernelError: arrays that do not fit together.
        """
        tokens = self._check(qkv, angles, pages, norms, sinks)
        shape, cut = self._shape, self._cut
        partitions = pages.tables.shape[1] * shape.page_size // cut.partition
        cut = cut_for(cut, shape.kv_heads * pages.tables.shape[0] * partitions)
        inputs = self._inputs(qkv, angles, pages, norms)
        if partitions == 1 and sinks is not None:
            inputs["sinks"] = sinks
        template = sizes(shape, cut, tokens)
        (out,) = self._kernel(tuple(inputs), cut, is_final=partitions == 1)(
            inputs,
            grid=(
                template["CHUNKS"] * shape.kv_heads * template["SIMDGROUPS"] * LANES,
                pages.tables.shape[0],
                partitions,
            ),
            threadgroup=(template["SIMDGROUPS"] * LANES, 1, 1),
            outputs=[self._output(qkv.shape[0], partitions)],
            template={"T": shape.dtype, **template},
        )
        if partitions == 1:
            return out
        return self._reduce.of_partitions(
            out, pages.lengths, partitions=partitions, tokens=tokens, partition=cut.partition, sinks=sinks
        )

    def _inputs(
        self, qkv: mx.array, angles: mx.array, pages: Pages, norms: HeadNorms | None
    ) -> dict[str, mx.array]:
        inputs = {
            "qkv": qkv,
            "angles": angles if self._shape.rotary_dims else self._unused_angles,
            "keys": pages.pools.keys,
            "values": pages.pools.values,
            "tables": pages.tables,
            "lengths": pages.lengths,
            "fence": pages.pools.fence,
            "pool": pages.pools.slots,
            "sizes": device_integers(self._shape.window or 0),
        }
        return inputs if norms is None else inputs | {"q_norm": norms.query, "k_norm": norms.key}

    def _output(self, tokens: int, partitions: int) -> Output:
        """The answer, or each partition's part of it."""
        shape = self._shape
        if partitions == 1:
            return Output((tokens, shape.heads * shape.head_dim), shape.dtype)
        return self._reduce.parts(tokens, partitions)

    def _kernel(self, inputs: tuple[str, ...], cut: DecodeCut, *, is_final: bool) -> Kernel:
        key = (inputs, cut.ahead, is_final)
        if key not in self._attention:
            shape = self._shape
            self._attention[key] = Kernel(
                "decode_attention",
                inputs=inputs,
                outputs=("out",),
                executor=self._executor,
                launches=self._launches,
                in_place=("keys", "values"),
                features={
                    "FINAL": int(is_final),
                    "WINDOW": int(shape.window is not None),
                    "SINKS": int(shape.sinks),
                    "AHEAD": int(cut.ahead),
                    **_numbers(shape),
                },
            )
        return self._attention[key]

    def _check(
        self,
        qkv: mx.array,
        angles: mx.array,
        pages: Pages,
        norms: HeadNorms | None,
        sinks: mx.array | None,
    ) -> int:
        """New tokens of each sequence."""
        shape, sequences = self._shape, pages.tables.shape[0]
        tokens = qkv.shape[0] // sequences
        pages.pools.check("decode attention", shape)
        check_arrays(
            "decode attention",
            {
                "qkv": (qkv, (sequences * tokens, shape.qkv_width), shape.dtype),
                "angles": (angles, (angles.shape[0], shape.rotary_dims), mx.float32),
                "tables": (pages.tables, pages.tables.shape, mx.int32),
                "lengths": (pages.lengths, (max(sequences, SMALLEST),), mx.int32),
            },
        )
        if not 1 <= tokens <= MAX_TOKENS:
            raise KernelError(f"decode attention: {tokens} tokens a sequence; it takes 1 to {MAX_TOKENS}")
        if pages.tables.shape[1] * shape.page_size % self._cut.partition:
            raise KernelError(
                f"decode attention: tables of {pages.tables.shape[1]} pages are no whole partitions "
                f"of {self._cut.partition} keys"
            )
        if (norms is None) != (shape.norm_epsilon is None) or (sinks is None) == shape.sinks:
            raise KernelError("decode attention: norms and sinks are given exactly when the shape has them")
        return tokens


def _numbers(shape: AttentionShape) -> dict[str, Feature]:
    """The numbers that the text has built in."""
    if shape.norm_epsilon is None:
        return {"HEAD_NORM": 0, **shape.logit_features}
    return {"HEAD_NORM": 1, "EPSILON": shape.norm_epsilon, **shape.logit_features}


def touched(launch: Launched) -> Touched:
    """Reads the tokens that a sequence has, or its window's; writes its new ones."""
    tables, lengths = launch.integers("tables"), launch.integers("lengths")
    tokens, window = launch.number("TOKENS"), int(launch.integers("sizes")[0])
    found = Touched()
    for table, length in zip(tables, lengths.tolist(), strict=False):  # lengths are padded to 8
        if length >= 0:
            lowest = max(0, length + 1 - window) if window else 0
            found |= Touched(
                launch.pages(table, lowest, length), launch.pages(table, length, length + tokens)
            )
    return found
