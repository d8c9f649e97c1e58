"""What a new array of the host's waits for while a device is busy: `python -m tests.metal.host_arrays`.

MLX's CUDA build gives it a buffer that a device's array has left, where one of about its size is kept, and
copies what that held first (docs/measured/pitfalls.md). Beside it stand one where nothing is kept, and
engine/steps/staging.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import mlx.core as mx
import numpy as np

from engine.steps.staging import Staging

SIZES = (64, 700, 2048, 6144, 16384)
"""Integers: a step's lengths, a chunk's numbers, its tokens."""
ROUNDS = 6
WIDTH, PRODUCTS = 8192, 8
"""Of what the device is busy with: some ten milliseconds of an H100's."""


def main() -> None:
    """See the module."""
    weight = mx.random.normal((WIDTH, WIDTH)).astype(mx.float16)
    mx.eval(weight)
    staging = Staging.for_device()
    for size in SIZES:
        numbers = np.arange(size, dtype=np.int32)

        def staged(numbers: np.ndarray = numbers) -> mx.array:
            return staging.integers(numbers)

        def new(numbers: np.ndarray = numbers) -> mx.array:
            return mx.array(numbers) + 0

        for name, make, is_kept in (("new", new, False), ("new, kept", new, True), ("staged", staged, False)):
            took = [milliseconds(weight, size, make, is_kept=is_kept) for _ in range(ROUNDS)]
            print(f"{size:6} {name:10}", " ".join(f"{each:7.3f}" for each in took), "ms", flush=True)


def milliseconds(weight: mx.array, size: int, make: Callable[[], mx.array], *, is_kept: bool) -> float:
    """Of the host, to make an array of `size` integers and send for it, behind products.

    `is_kept`: a device's array of that size was let go of before.
    """
    mx.synchronize()
    mx.clear_cache()
    if is_kept:
        mx.eval(mx.zeros((size,), mx.int32) + 1)
    product = weight
    for _ in range(PRODUCTS):
        product = (product @ weight) * 0.01
    mx.async_eval(product)
    began = time.perf_counter()
    array = make()
    mx.async_eval(array)
    seconds = time.perf_counter() - began
    mx.eval(product, array)
    return 1000 * seconds


if __name__ == "__main__":
    main()
