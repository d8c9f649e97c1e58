"""A layer's pools as page kernels take them, and what must be true of arrays that come with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.constants import device_integers
from metal.errors import KernelError
from metal.executors import Output

SMALLEST = 8
"""Numbers that an array has at least: with fewer, MLX would pass them as `constant`, maybe from the host."""

Expected = Mapping[str, tuple[mx.array, tuple[int, ...], mx.Dtype]]


@dataclass(frozen=True, slots=True)
class Pools:
    """Keys and values of a layer, evaluated: kernels write them in place.

    Attributes:
        keys, values: (kv_heads, slots, head_dim); or the first page of the first head, (page_size, head_dim),
            a view of such an array. A device finds all of it from there, and a launch that was traced for one
            number of slots serves any.
        fence: made by the last launch that touched these pools, or behind it: any array of their dtype, of at
            least SMALLEST elements. It is not read: by taking it the next launch comes after that one.
        slots: int32 (4,), tokens that the pools have room for, and zeros; see `device_integers`.
    """

    keys: mx.array
    values: mx.array
    fence: mx.array
    slots: mx.array

    @classmethod
    def whole(cls, keys: mx.array, values: mx.array, fence: mx.array) -> Pools:
        """Of arrays that are no views."""
        return cls(keys, values, fence, device_integers(keys.shape[1]))

    def check(self, kernel: str, shape: AttentionShape) -> None:
        """Raises KernelError unless these are pools of `shape`."""
        pool = (shape.page_size, shape.head_dim)
        if self.keys.ndim == 3:
            pool = (shape.kv_heads, self.keys.shape[1], shape.head_dim)
            if pool[1] % shape.page_size:
                raise KernelError(
                    f"{kernel}: pools of {self.keys.shape} are no whole pages of {shape.page_size} tokens"
                )
        check_arrays(
            kernel,
            {
                "keys": (self.keys, pool, shape.dtype),
                "values": (self.values, pool, shape.dtype),
                "fence": (self.fence, self.fence.shape, shape.dtype),
                "slots": (self.slots, (4,), mx.int32),
            },
        )
        if self.fence.size < SMALLEST:
            raise KernelError(f"{kernel}: a fence of {self.fence.size} elements; it has {SMALLEST} or more")


def no_fence(dtype: mx.Dtype) -> mx.array:
    """The fence of pools that no launch has touched."""
    return mx.zeros((SMALLEST,), dtype)


def next_fence(dtype: mx.Dtype) -> Output:
    """One that a launch makes for the purpose: what else it makes would be too much to keep for it."""
    return Output((SMALLEST,), dtype)


@dataclass(frozen=True, slots=True)
class Pages:
    """A layer's pools and where sequences lie in them.

    Attributes:
        pools: written in place.
        tables: int32 (sequences, width), -1 where there is no page; width · page_size is a whole number of
            partitions.
        lengths: int32, at least 8: tokens that each sequence already has in pages; negative for a row of the
            batch that is not in use, whose output is then undefined.
    """

    pools: Pools
    tables: mx.array
    lengths: mx.array


def pool_name(name: str, number: int) -> str:
    """Keys or values, as a kernel calls them that takes several layers' pools, numbered from 0."""
    return f"{name}_{number}" if number else name


def check_arrays(kernel: str, expected: Expected) -> None:
    """Raises KernelError for the first array that has not the shape and dtype beside it."""
    for name, (array, shape, dtype) in expected.items():
        if array.shape != shape or array.dtype != dtype:
            raise KernelError(f"{kernel}: {name} is {array.shape} {array.dtype}, not {shape} {dtype}")
