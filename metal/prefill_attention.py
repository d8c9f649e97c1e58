"""Launches prefill_attention.metal: many new tokens of each sequence, in pages already, attend over pages.

The tiling follows FlashAttention-2 (Dao 2023, arXiv:2307.08691), split keys Flash-Decoding (Dao et al. 2023).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from metal.attention_reduce import AttentionReduce
from metal.attention_shape import AttentionShape
from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel
from metal.pools import Pools, check_arrays, next_fence
from metal.sequences import HEAD, Sequences
from metal.touched import Launched, Touched

_THREADGROUP_BYTES = 32768
_PLENTY = 1024
"""Simdgroups that a device has work for at once; keys are split until there are as many.

An H200 has 132 cores for 8 each, whatever registers they need: half as many again were two rounds.
"""
_FEWEST_KEYS = 256
"""Of a part of them: fewer are not worth the joining."""
_MATRIX = 8  # rows and columns of a matrix
_ACCESS = 16  # bytes
_TILES, _KEYS = (1, 2, 4), (8, 16, 32, 64)
_MANY_ELEMENTS = 128
"""Of a head, with which a thread has no registers for 32 keys."""


@dataclass(frozen=True, slots=True)
class PrefillCut:
    """How the work is cut; which is fastest depends on the machine.

    Attributes:
        tiles: 8 query rows each, that a simdgroup holds: 1, 2 or 4.
        simdgroups: of a threadgroup, which share what is read.
        keys: keys that a threadgroup, or with `striped` a simdgroup, holds at once: 8, 16, 32 or 64.
        striped: whether the simdgroups of a threadgroup have the same rows, and walk keys of their own.
    """

    tiles: int
    simdgroups: int
    keys: int
    striped: bool = False

    def __str__(self) -> str:
        return f"{self.tiles}x{self.simdgroups}x{self.keys}" + (" striped" if self.striped else "")

    @property
    def rows(self) -> int:
        """Query rows of a threadgroup."""
        return _MATRIX * self.tiles * (1 if self.striped else self.simdgroups)

    def threadgroup_bytes(self, shape: AttentionShape) -> int:
        """Threadgroup memory: of keys and values, and with `striped` of what is joined behind them."""
        if not self.striped:
            return self.keys * (_key_stride(shape) + _value_stride(shape)) * shape.dtype.size
        tile = self.keys * max(_key_stride(shape), _value_stride(shape)) * shape.dtype.size
        handed = self.tiles * (1 + shape.head_dim // _MATRIX) * 2 * LANES * 4
        return max(self.simdgroups * tile, self.simdgroups // 2 * handed)


def prefill_cuts(shape: AttentionShape) -> list[PrefillCut]:
    """The cuts that fit in threadgroup memory, the one to use unmeasured first."""
    sizes = (16, 8) if shape.head_dim >= _MANY_ELEMENTS else (32, 16, 8)
    cuts = [
        PrefillCut(tiles, simdgroups, keys)
        for keys in sizes
        for tiles, simdgroups in ((2, 4), (2, 8), (1, 4), (1, 8))
    ]
    return _fitting(cuts, shape)


def few_rows_cuts(shape: AttentionShape) -> list[PrefillCut]:
    """Those that fit and may be the fastest for few rows behind many keys, some with 32 or 64 of these."""
    cuts = [*prefill_cuts(shape)[:4], *_fitting([PrefillCut(2, 8, 32), PrefillCut(2, 8, 64)], shape)]
    return [*dict.fromkeys(cuts), *striped_cuts(shape)[:2]]


def striped_cuts(shape: AttentionShape) -> list[PrefillCut]:
    """Those that fit whose simdgroups walk keys of their own: few rows need no launch to join parts."""
    return _fitting([PrefillCut(2, simdgroups, 16, striped=True) for simdgroups in (10, 8, 6, 4)], shape)


def _fitting(cuts: list[PrefillCut], shape: AttentionShape) -> list[PrefillCut]:
    """Those that have room in threadgroup memory."""
    return [cut for cut in cuts if cut.threadgroup_bytes(shape) <= _THREADGROUP_BYTES]


def _key_stride(shape: AttentionShape) -> int:
    """Elements from one key to the next in threadgroup memory.

    Four lanes read 64 bytes of a key at a time, eight lanes those of two keys: in all 32 banks of 4 bytes.
    """
    return _padded(shape, rest=64, modulus=128)


def _value_stride(shape: AttentionShape) -> int:
    """The same of values, of which eight lanes read 32 bytes of four, every second one, at a time."""
    return _padded(shape, rest=16, modulus=64)


def _padded(shape: AttentionShape, *, rest: int, modulus: int) -> int:
    row = shape.head_dim * shape.dtype.size
    while row % modulus != rest:
        row += _ACCESS
    return row // shape.dtype.size


class PrefillAttention:
    """Causal attention of ragged batches over pages, history included."""

    def __init__(
        self, executor: Executor, launches: Counter[str], shape: AttentionShape, cut: PrefillCut | None = None
    ) -> None:
        """Raises KernelError for a shape that the kernel is not written for, or a cut that does not fit."""
        shape.check()
        self._executor, self._launches = executor, launches
        self._shape, self._cut = shape, cut or prefill_cuts(shape)[0]
        if self._cut.tiles not in _TILES or self._cut.keys not in _KEYS:
            raise KernelError(f"prefill attention: no cut {self._cut}; tiles are {_TILES}, keys {_KEYS}")
        if self._cut.threadgroup_bytes(shape) > _THREADGROUP_BYTES:
            raise KernelError(f"prefill attention: {self._cut} does not fit heads of {shape.head_dim}")
        self._whole = self._kernel(is_split=False)
        self._split = self._kernel(is_split=True)
        self._reduce = AttentionReduce(executor, launches, shape, ragged=True)

    def parts(self, rows: int, keys: int) -> int | None:
        """Into how many parts the keys of one sequence are best split, of `rows` new tokens behind `keys`.

        None where they are not: joining is a launch more, which a striped cut needs for very few rows only.
        """
        busy = self._tiles(rows) * self._cut.simdgroups * self._shape.kv_heads
        plenty, fewest = (_PLENTY // 2, 3) if self._cut.striped else (_PLENTY, 2)
        parts = min(plenty // busy, keys // _FEWEST_KEYS)
        return parts if parts >= fewest else None

    def __call__(
        self,
        queries: mx.array,
        pools: Pools,
        sequences: Sequences,
        max_rows: int,
        *,
        parts: int | None = None,
        sinks: mx.array | None = None,
    ) -> tuple[mx.array, mx.array]:
        """Attends from the new tokens; returns (out, next fence).

        Args:
            queries: rotated, (heads, rows, head_dim), as PageWrite makes them: this launch's fence, as they
                were made by the one before it.
            pools: with the new tokens' keys and values in them; only read.
            sequences: a sequence has the rows from its first to the next one's, maybe none. That they are of
                as many rows as queries has, and of these pools, is not checked.
            max_rows: at least the rows of the longest sequence.
            parts: into which keys are split, so that threadgroups share those of the same rows; then they are
                joined by a launch more, also of one part. What comes out depends on it, by rounding.
            sinks: (heads,), with `shape.sinks`.

        Returns:
            out (rows, heads · head_dim), undefined in rows of no sequence, and what the next launch on these
            pools takes for its fence; of keys in parts, of few rows then, this is out itself.

        Raises:
            KernelError: arrays that do not fit together.
        """
        self._check(queries, pools, sequences, max_rows, sinks)
        if parts is not None and parts < 1:
            raise KernelError(f"prefill attention: keys in {parts} parts")
        shape, threads = self._shape, self._cut.simdgroups * LANES
        rows = queries.shape[1]
        made = (self._whole if parts is None else self._split)(
            self._inputs(queries, pools, sequences, sinks if parts is None else None),
            grid=(self._tiles(max_rows) * threads, shape.kv_heads * (parts or 1), sequences.count),
            threadgroup=(threads, 1, 1),
            outputs=self._outputs(rows, parts),
            template={"T": shape.dtype, **self._template()},
        )
        if parts is None:
            return made[0], made[1]
        out = self._reduce.of_parts(made[0], sequences.numbers, parts=parts, sinks=sinks)
        return out, out

    def _outputs(self, rows: int, parts: int | None) -> list[Output]:
        shape = self._shape
        if parts is None:
            return [Output((rows, shape.heads * shape.head_dim), shape.dtype), next_fence(shape.dtype)]
        return [self._reduce.parts(rows, parts)]

    def _kernel(self, *, is_split: bool) -> Kernel:
        shape = self._shape
        inputs = ("queries", "keys", "values", "sequences")
        return Kernel(
            "prefill_attention",
            inputs=(*inputs, *(("sinks",) if shape.sinks and not is_split else ())),
            outputs=("out",) if is_split else ("out", "next_fence"),
            executor=self._executor,
            launches=self._launches,
            features={
                "WINDOW": int(shape.window is not None),
                "SINKS": int(shape.sinks),
                "SPLIT": int(is_split),
                "STRIPED": int(self._cut.striped),
                **shape.logit_features,
            },
        )

    def _tiles(self, rows: int) -> int:
        return -(-rows * self._shape.group // self._cut.rows)

    def _inputs(
        self, queries: mx.array, pools: Pools, sequences: Sequences, sinks: mx.array | None
    ) -> dict[str, mx.array]:
        inputs = {"queries": queries, "keys": pools.keys, "values": pools.values}
        inputs["sequences"] = sequences.numbers
        return inputs if sinks is None else inputs | {"sinks": sinks}

    def _template(self) -> dict[str, int]:
        shape, cut = self._shape, self._cut
        pieces = cut.keys * shape.head_dim * shape.dtype.size // 16
        return {
            "HEAD_DIM": shape.head_dim,
            "GROUP": shape.group,
            "KV_HEADS": shape.kv_heads,
            "PAGE": shape.page_size,
            **({} if shape.window is None else {"SEEN": shape.window}),
            "TILES": cut.tiles,
            "SIMDGROUPS": cut.simdgroups,
            "KEYS": cut.keys,
            "KEY_STRIDE": _key_stride(shape),
            "VALUE_STRIDE": _value_stride(shape),
            "KEY_WIDE": _matrices(shape, most=4),
            "VALUE_WIDE": _matrices(shape, most=8),
            "TILE_ELEMENTS": cut.threadgroup_bytes(shape) // shape.dtype.size,
            "VECTORS": -(-pieces // (LANES if cut.striped else cut.simdgroups * LANES)),
        }

    def _check(
        self, queries: mx.array, pools: Pools, sequences: Sequences, max_rows: int, sinks: mx.array | None
    ) -> None:
        shape, rows = self._shape, queries.shape[1]
        pools.check("prefill attention", shape)
        sequences.check()
        check_arrays(
            "prefill attention", {"queries": (queries, (shape.heads, rows, shape.head_dim), shape.dtype)}
        )
        if sinks is not None:
            check_arrays("prefill attention", {"sinks": (sinks, (shape.heads,), sinks.dtype)})
        if not 0 < max_rows <= rows:
            raise KernelError(f"prefill attention: at most {max_rows} of {rows} rows in a sequence")
        if (sinks is None) == shape.sinks:
            raise KernelError("prefill attention: sinks are given exactly when the shape has them")


def _matrices(shape: AttentionShape, *, most: int) -> int:
    """How many of a row's matrices one access takes."""
    columns = shape.head_dim // _MATRIX
    return next(count for count in (8, 4, 2) if count <= most and columns % count == 0)


def touched(launch: Launched) -> Touched:
    """Reads the tokens that a sequence has with its new ones, from its first new token's window on."""
    _, width, _, _, count, *_ = launch.integers("sequences").tolist()
    numbers = launch.integers("sequences")[HEAD:]
    window = launch.number("SEEN") if "SEEN" in launch.template else 0
    tables = numbers[2 * count + 1 :][: count * width].reshape(count, width)
    rows = np.diff(numbers[count : 2 * count + 1]).tolist()
    found = Touched()
    for table, history, new in zip(tables, numbers[:count].tolist(), rows, strict=True):
        if history >= 0 and new > 0:
            lowest = max(0, history + 1 - window) if window else 0
            found |= Touched(reads=launch.pages(table, lowest, history + new))
    return found
