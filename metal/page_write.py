"""Launches page_write.metal: keys and values of many tokens, rotated, into their pages; queries rotated."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx

from metal.attention_shape import AttentionShape, HeadNorms
from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel
from metal.pools import SMALLEST, Pools, check_arrays, next_fence
from metal.touched import Launched, Touched

_MOST_SIMDGROUPS = 8
_FENCE = "next_fence"
_PAGES, _QUERIES, _CHUNK = (_FENCE,), ("queries",), ("queries", "new_keys", "new_values", _FENCE)


class PageWrite:
    """Writes rows of projections to pages, for prefill: rows of several sequences, in any order."""

    def __init__(self, executor: Executor, launches: Counter[str], shape: AttentionShape) -> None:
        """Raises KernelError for a shape that the kernel is not written for."""
        shape.check()
        self._executor, self._launches, self._shape = executor, launches, shape
        self._unused_angles = mx.zeros((8,), mx.float32)
        self._kernels: dict[tuple[str, ...], Kernel] = {}

    def pages(
        self,
        qkv: mx.array,
        angles: mx.array,
        slots: mx.array,
        pools: Pools,
        *,
        norms: HeadNorms | None = None,
    ) -> mx.array:
        """Writes keys and values only; arguments and errors as `queries`. Returns the next fence."""
        (fence,) = self._write(_PAGES, qkv, angles, slots, pools, norms)
        return fence

    def queries(
        self,
        qkv: mx.array,
        angles: mx.array,
        slots: mx.array,
        pools: Pools,
        *,
        norms: HeadNorms | None = None,
    ) -> mx.array:
        """Writes keys and values; returns rotated queries (heads, rows, head_dim), the next fence, too.

        Args:
            qkv: (rows, (heads + 2 kv_heads) · head_dim).
            angles: float32 (rows, rotary_dims), cosines then sines of each row's position.
            slots: int32, at least 8: where each row goes, no slot twice; -1 for a row that goes nowhere.
            pools: written in place.
            norms: with `shape.norm_epsilon`.

        Raises:
            KernelError: arrays that do not fit together.
        """
        (queries,) = self._write(_QUERIES, qkv, angles, slots, pools, norms)
        return queries

    def chunk(
        self,
        qkv: mx.array,
        angles: mx.array,
        slots: mx.array,
        pools: Pools,
        *,
        norms: HeadNorms | None = None,
    ) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        """As `queries`; returns (queries, keys, values, next fence).

        Keys and values (kv_heads, rows, head_dim) are what went to the pages, row beside row: all that a
        prompt without history attends to.
        """
        queries, keys, values, fence = self._write(_CHUNK, qkv, angles, slots, pools, norms)
        return queries, keys, values, fence

    def _write(
        self,
        made: tuple[str, ...],
        qkv: mx.array,
        angles: mx.array,
        slots: mx.array,
        pools: Pools,
        norms: HeadNorms | None,
    ) -> list[mx.array]:
        self._check(qkv, angles, slots, pools, norms)
        shape, rows = self._shape, qkv.shape[0]
        inputs = {
            "qkv": qkv,
            "angles": angles if shape.rotary_dims else self._unused_angles,
            "slots": slots,
            "keys": pools.keys,
            "values": pools.values,
            "fence": pools.fence,
            "pool": pools.slots,
        }
        if norms is not None:
            inputs |= {"q_norm": norms.query, "k_norm": norms.key}
        sizes = {"queries": shape.heads, "new_keys": shape.kv_heads, "new_values": shape.kv_heads}
        cut = _cut(shape, with_queries="queries" in made)
        threads = cut["SIMDGROUPS"] * LANES
        groups = -(-cut["ITEMS"] * cut["TEAM"] // threads)
        return self._kernel(made, tuple(inputs))(
            inputs,
            grid=(rows * threads, groups, 1),
            threadgroup=(threads, 1, 1),
            outputs=[
                next_fence(shape.dtype)
                if name == _FENCE
                else Output((sizes[name], rows, shape.head_dim), shape.dtype)
                for name in made
            ],
            template={"T": shape.dtype, **cut},
        )

    def _kernel(self, made: tuple[str, ...], inputs: tuple[str, ...]) -> Kernel:
        if made not in self._kernels:
            self._kernels[made] = Kernel(
                "page_write",
                inputs=inputs,
                outputs=made,
                executor=self._executor,
                launches=self._launches,
                in_place=("keys", "values"),
                features={
                    "QUERIES": int("queries" in made),
                    "CHUNK": int("new_keys" in made),
                    "HEAD_NORM": int(self._shape.norm_epsilon is not None),
                    "EPSILON": self._shape.norm_epsilon or 0.0,
                },
            )
        return self._kernels[made]

    def _check(
        self, qkv: mx.array, angles: mx.array, slots: mx.array, pools: Pools, norms: HeadNorms | None
    ) -> None:
        shape, rows = self._shape, qkv.shape[0]
        pools.check("page write", shape)
        expected = {
            "qkv": (qkv, (rows, shape.qkv_width), shape.dtype),
            "angles": (angles, (rows, shape.rotary_dims), mx.float32),
            "slots": (slots, (max(rows, SMALLEST),), mx.int32),
        }
        if norms is not None:
            expected |= {
                "the query norm": (norms.query, (shape.head_dim,), norms.query.dtype),
                "the key norm": (norms.key, (shape.head_dim,), norms.query.dtype),
            }
        check_arrays("page write", expected)
        if (norms is None) != (shape.norm_epsilon is None):
            raise KernelError("page write: norms are given exactly when the shape has their epsilon")


def _cut(shape: AttentionShape, *, with_queries: bool) -> dict[str, int]:
    """How a row's heads are dealt to simdgroups: as few threadgroups as hold them, evenly filled."""
    team = 1 << (shape.head_dim // 8 - 1).bit_length()
    items = 2 * shape.kv_heads + (shape.heads if with_queries else 0)
    simdgroups = -(-items * team // LANES)
    return {
        "HEAD_DIM": shape.head_dim,
        "ROTARY": shape.rotary_dims,
        "HEADS": shape.heads,
        "KV_HEADS": shape.kv_heads,
        "QKV_WIDTH": shape.qkv_width,
        "TEAM": team,
        "ITEMS": items,
        "FIRST": 0 if with_queries else shape.heads,
        "SIMDGROUPS": -(-simdgroups // -(-simdgroups // _MOST_SIMDGROUPS)),
    }


def touched(launch: Launched) -> Touched:
    """Writes where rows go."""
    slots = launch.integers("slots")[: launch.arrays["qkv"].shape[0]]
    return Touched(writes=frozenset((slots[slots >= 0] // launch.page_size).tolist()))
