"""A layer's pools as page kernels take them, and what must be true of arrays that come with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.decode_attention import FENCE
from metal.errors import KernelError
from metal.executors import Output

NEXT_FENCE = Output((FENCE,), mx.int32)
SMALLEST = 8
"""Integers that slots, offsets and lengths hold at least: with fewer, MLX would pass them as `constant`."""

Expected = Mapping[str, tuple[mx.array, tuple[int, ...], mx.Dtype]]


@dataclass(frozen=True, slots=True)
class Pools:
    """Keys and values of a layer, evaluated and never sliced: kernels write them in place.

    Attributes:
        keys, values: (kv_heads, slots, head_dim).
        fence: int32 (8,), yielded by the last launch that touched these pools.
    """

    keys: mx.array
    values: mx.array
    fence: mx.array

    @property
    def slots(self) -> int:
        """Tokens that the pools have room for."""
        return self.keys.shape[1]

    def check(self, kernel: str, shape: AttentionShape) -> None:
        """Raises KernelError unless these are pools of `shape`."""
        if self.keys.ndim != 3 or self.slots % shape.page_size:
            raise KernelError(
                f"{kernel}: pools of {self.keys.shape} are no whole pages of {shape.page_size} tokens"
            )
        pool = (shape.kv_heads, self.slots, shape.head_dim)
        check_arrays(
            kernel,
            {
                "keys": (self.keys, pool, shape.dtype),
                "values": (self.values, pool, shape.dtype),
                "fence": (self.fence, (FENCE,), mx.int32),
            },
        )


def check_arrays(kernel: str, expected: Expected) -> None:
    """Raises KernelError for the first array that has not the shape and dtype beside it."""
    for name, (array, shape, dtype) in expected.items():
        if array.shape != shape or array.dtype != dtype:
            raise KernelError(f"{kernel}: {name} is {array.shape} {array.dtype}, not {shape} {dtype}")
