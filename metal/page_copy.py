"""Launches page_copy.metal: pages copied onto others of the same pools, before one of two owners writes."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.executors import Executor
from metal.kernel import Kernel
from metal.pools import NEXT_FENCE, Pools, check_arrays
from metal.touched import Launched, Touched

_THREADS = 128  # times 16 bytes: the smallest page of a head is as large


class PageCopy:
    """Copies whole pages, all heads, keys and values: copy-on-write."""

    def __init__(self, executor: Executor, launches: Counter[str], shape: AttentionShape) -> None:
        """Raises KernelError for a shape that the kernel is not written for."""
        shape.check()
        self._shape = shape
        self._kernel = Kernel(
            "page_copy",
            inputs=("keys", "values", "pairs", "fence", "pool"),
            outputs=("next_fence",),
            executor=executor,
            launches=launches,
            in_place=("keys", "values"),
        )

    def __call__(self, pools: Pools, pairs: mx.array) -> mx.array:
        """Copies each pair's source page onto its target; returns the next fence.

        Args:
            pools: written in place.
            pairs: int32 (n, 2), (source, target), -1 for none. No page is a target twice, and none is both
                source and target: pairs are copied in no order.

        Raises:
            KernelError: arrays that do not fit together.
        """
        shape = self._shape
        pools.check("page copy", shape)
        check_arrays("page copy", {"pairs": (pairs, (pairs.size // 2, 2), mx.int32)})
        pieces = shape.page_size * shape.head_dim * shape.dtype.size // 16
        (fence,) = self._kernel(
            {
                "keys": pools.keys,
                "values": pools.values,
                "pairs": pairs,
                "fence": pools.fence,
                "pool": pools.slots,
            },
            grid=(-(-pieces // _THREADS) * _THREADS, shape.kv_heads, pairs.shape[0]),
            threadgroup=(_THREADS, 1, 1),
            outputs=[NEXT_FENCE],
            template={"T": shape.dtype, "HEAD_DIM": shape.head_dim, "PAGE": shape.page_size},
        )
        return fence


def touched(launch: Launched) -> Touched:
    """Reads sources and writes targets."""
    pairs = [pair for pair in launch.integers("pairs").tolist() if min(pair) >= 0]
    return Touched(frozenset(source for source, _ in pairs), frozenset(target for _, target in pairs))
