"""Attention at rounded lengths against float64, with windows and without, and what it is compiled for."""

import mlx.core as mx
import numpy as np
import pytest

from metal.padded_attention import FEWEST, attend_padded, padded_mask, product_rows, rounded, rounded_lengths
from tests.metal.numbers import normal, wide


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize(
    ("tokens", "seen", "window"),
    [(29, 200, None), (70, 70, None), (33, 150, 40), (64, 128, None), (9, 9, 3), (65, 65, 2)],
)
def test_agrees_with_float64(dtype: mx.Dtype, tokens: int, seen: int, window: int | None) -> None:
    q = normal((8, tokens, 64), seed=0).astype(dtype)
    keys, values = (normal((2, seen, 64), seed=seed).astype(dtype) for seed in (1, 2))
    padding = [(0, 0), (0, rounded(seen) - seen), (0, 0)]
    masks: list[mx.array | str] = [padded_mask(tokens, seen, window, dtype)]
    if tokens == seen and window is None:
        masks.append("causal")
    at, behind = np.arange(seen - tokens, seen)[:, None], np.arange(seen)
    sees = (behind <= at) & (behind > at - (window or seen))
    k, v = (np.repeat(wide(array), 4, axis=0) for array in (keys, values))
    scores = np.where(sees, 0.125 * wide(q) @ k.swapaxes(1, 2), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    exact = weights / weights.sum(axis=-1, keepdims=True) @ v
    limit = {mx.float32: 1e-5, mx.float16: 2e-3, mx.bfloat16: 2e-2}[dtype]
    for mask in masks:
        out = attend_padded(q, mx.pad(keys, padding), mx.pad(values, padding), 0.125, mask)
        assert out.dtype == dtype
        assert out.shape == q.shape
        assert np.abs(wide(out) - exact).max() <= limit * np.abs(exact).max()


def test_lengths_of_a_chat_are_few_and_have_little_padding() -> None:
    lengths = {(rounded(tokens), rounded(seen)) for seen in range(1, 16_385) for tokens in (1, 40, seen)}
    assert len(lengths) == 2 * (7 + 8) - 1  # 64 … 4,096 … 16,384, with few tokens and with all
    assert min(lengths) == (FEWEST, FEWEST)
    assert {keys for _, keys in lengths} == set(rounded_lengths(FEWEST, 16_384))
    for length in range(1, 40_000):
        assert length <= rounded(length) < (2 * length if length > FEWEST else FEWEST + 1)
        assert length <= 4096 or rounded(length) <= 1.25 * length + 1


def test_padding_sees_keys_so_that_nothing_is_undefined() -> None:
    for window in (None, 1, 5):
        mask = padded_mask(3, 70, window, mx.float32)
        assert mask.shape == (64, 128)
        assert mx.all(mx.any(mask == 0, axis=1)).item()
        assert not mx.any(mask[:, 70:] == 0).item()


def test_products_have_few_numbers_of_rows_and_little_padding() -> None:
    rows = {tokens: product_rows(tokens) for tokens in range(1, 2049)}
    assert all(tokens <= rows[tokens] <= rounded(tokens) for tokens in rows)
    assert all(rows[tokens] - tokens < 128 for tokens in rows)
    assert len(set(rows.values())) == 1 + 2048 // 128
