"""RMS normalisation against numpy's in float64, of one row as of several."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.layers.norm import RMSNorm

EPS = 1e-5


def random(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("size", [0.0, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("width", [8, 256, 2048])
@pytest.mark.parametrize("rows", [1, 2, 40])
def test_norms_of_any_number_of_rows(rows: int, width: int, size: float) -> None:
    x, weight = size * random(rows, width, seed=rows), random(width, seed=0)
    x64 = x.astype(np.float64)
    expected = weight * x64 / np.sqrt((x64**2).mean(axis=-1, keepdims=True) + EPS)
    found = RMSNorm(mx.array(weight), EPS)(mx.array(x))
    assert found.shape == (rows, width)
    np.testing.assert_allclose(np.array(found), expected, rtol=3e-6)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_stays_what_it_is(dtype: mx.Dtype) -> None:
    x, weight = mx.array(random(1, 64, seed=1)).astype(dtype), mx.array(random(64, seed=2)).astype(dtype)
    found = RMSNorm(weight, EPS)(x)
    assert found.dtype == dtype
    assert mx.array_equal(found, mx.fast.rms_norm(x, weight, EPS)).item()
