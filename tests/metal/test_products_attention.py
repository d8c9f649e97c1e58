"""Attention by products against float64, in bands and windows."""

import mlx.core as mx
import numpy as np
import pytest

from metal import products_attention
from metal.products_attention import attend_by_products
from tests.metal.numbers import normal, wide


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize(
    ("tokens", "seen", "window"), [(29, 200, None), (70, 70, None), (33, 150, 40), (1, 9, 3)]
)
@pytest.mark.parametrize("most_bytes", [1 << 28, 8 * 200 * 4 * 5])
def test_agrees_with_float64(
    dtype: mx.Dtype,
    tokens: int,
    seen: int,
    window: int | None,
    most_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products_attention, "_MOST_BYTES", most_bytes)
    q = normal((8, tokens, 64), seed=0).astype(dtype)
    keys, values = (normal((2, seen, 64), seed=seed).astype(dtype) for seed in (1, 2))
    out = attend_by_products(q, keys, values, 0.125, window)
    assert out.dtype == dtype
    at, behind = np.arange(seen - tokens, seen)[:, None], np.arange(seen)
    sees = (behind <= at) & (behind > at - (window or seen))
    k, v = (np.repeat(wide(array), 4, axis=0) for array in (keys, values))
    scores = np.where(sees, 0.125 * wide(q) @ k.swapaxes(1, 2), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    exact = weights / weights.sum(axis=-1, keepdims=True) @ v
    limit = {mx.float32: 1e-5, mx.float16: 2e-3, mx.bfloat16: 2e-2}[dtype]
    assert np.abs(wide(out) - exact).max() <= limit * np.abs(exact).max()
