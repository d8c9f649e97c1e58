"""Small arrays of integers that kernels read, where the device reaches them fast."""

from __future__ import annotations

from functools import lru_cache

import mlx.core as mx

_FEWEST = 4


@lru_cache(maxsize=1024)
def device_integers(*values: int) -> mx.array:
    """int32 `values`, with zeros up to 4, in the device's own memory.

    MLX's CUDA back-end keeps what the host wrote in memory that migrates, and any array of 8 bytes or less in
    host memory for good: a kernel that reads one waits for the bus at every launch. A result of the device's
    own, of more than 8 bytes, lies with the device.
    """
    padded = [*values, *[0] * (_FEWEST - len(values))]
    array = mx.array(padded, dtype=mx.int32) + 0
    mx.eval(array)
    return array
