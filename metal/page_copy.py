"""Launches page_copy.metal: a page copied onto another of the same pools, before one of two owners writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.errors import KernelError
from metal.executors import Executor
from metal.kernel import Kernel
from metal.pools import SMALLEST, Pools, check_arrays, next_fence, pool_name
from metal.touched import Launched, Touched

MOST_LAYERS = 8
"""Whose pools one launch takes: Metal has 31 places for arrays."""

_THREADS = 128  # times 16 bytes: the smallest page of a head is as large


class PageCopy:
    """Copies a whole page, all heads, keys and values: copy-on-write."""

    def __init__(self, executor: Executor, launches: Counter[str], shape: AttentionShape) -> None:
        """Raises KernelError for a shape that the kernel is not written for."""
        shape.check()
        self._executor, self._launches, self._shape = executor, launches, shape
        self._kernels = {1: self._kernel(1)}

    def __call__(self, layers: Sequence[Pools], pair: mx.array) -> mx.array:
        """Copies a page onto another, in every layer; returns the next fence.

        Args:
            layers: pools of 1 to MOST_LAYERS layers that have as many slots, and one fence; written in place.
            pair: int32 (2,), source and target: so few that a GPU reads them where the host has written them.
                Or (8,), which the device has, with anything behind them. Where they are one page nothing is
                copied.

        Raises:
            KernelError: arrays that do not fit together, or too many layers.
        """
        shape, count = self._shape, len(layers)
        if not 1 <= count <= MOST_LAYERS:
            raise KernelError(f"page copy: pools of {count} layers; 1 to {MOST_LAYERS} are taken")
        for pools in layers:
            pools.check("page copy", shape)
        few = (2,) if pair.size == 2 else (SMALLEST,)
        check_arrays("page copy", {"pair": (pair, few, mx.int32)})
        if count not in self._kernels:
            self._kernels[count] = self._kernel(count)
        inputs = {"fence": layers[0].fence, "pair": pair, "pool": layers[0].slots}
        for number, pools in enumerate(layers):
            each = {"keys": pools.keys, "values": pools.values}
            inputs |= {pool_name(name, number): array for name, array in each.items()}
        pieces = shape.page_size * shape.head_dim * shape.dtype.size // 16
        sizes = {"HEAD_DIM": shape.head_dim, "PAGE": shape.page_size, "KV_HEADS": shape.kv_heads}
        (fence,) = self._kernels[count](
            inputs,
            grid=(-(-pieces // _THREADS) * _THREADS, shape.kv_heads * count, 1),
            threadgroup=(_THREADS, 1, 1),
            outputs=[next_fence(shape.dtype)],
            template={"T": shape.dtype, **sizes},
        )
        return fence

    def _kernel(self, layers: int) -> Kernel:
        keys, values = ([pool_name(name, number) for number in range(layers)] for name in ("keys", "values"))
        return Kernel(
            "page_copy",
            inputs=(*keys, *values, "fence", "pair", "pool"),
            outputs=("next_fence",),
            executor=self._executor,
            launches=self._launches,
            in_place=(*keys, *values),
            features={"LAYERS": layers},
        )


def together(copiers: Sequence[PageCopy]) -> Iterator[tuple[PageCopy, range]]:
    """Layers that one launch copies, with its kernel, of what copies each layer: neighbours of one shape."""
    first = 0
    for kernel, run in groupby(copiers):
        end = first + len(list(run))
        for begin in range(first, end, MOST_LAYERS):
            yield kernel, range(begin, min(begin + MOST_LAYERS, end))
        first = end


def touched(launch: Launched) -> Touched:
    """Reads the source and writes the target."""
    source, target = launch.integers("pair").tolist()[:2]
    return Touched(frozenset({source} - {target}), frozenset({target} - {source}))
