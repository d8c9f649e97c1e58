"""Random arrays for kernels, their values as float64, and how near to these a result must be."""

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

TOLERANCE = {mx.float32: 1e-5, mx.float16: 2e-3, mx.bfloat16: 2e-2}
"""The most that `error` may be, by the dtype of a result."""


def normal(shape: tuple[int, ...], dtype: mx.Dtype = mx.float32, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).astype(dtype)


def wide(array: mx.array) -> NDArray[np.float64]:
    return np.array(array.astype(mx.float32)).astype(np.float64)


def error(result: mx.array | NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Largest difference as a share of the largest value; NaN if anything is."""
    assert result.shape == expected.shape
    values = wide(result) if isinstance(result, mx.array) else result
    return float(np.abs(values - expected).max() / np.abs(expected).max())
