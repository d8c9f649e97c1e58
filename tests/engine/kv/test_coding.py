"""Stored rows against numpy: what the words of codes say, how far off it may be, how many bytes it takes."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.kv.coding import Quantised, coding, head_bytes
from engine.machine.machine import device_kind

HEADS, TOKENS = 2, 21


def rows(head_dim: int, seed: int = 0, scale: float = 1.0, offset: float = 0.0) -> mx.array:
    values = np.random.default_rng(seed).standard_normal((HEADS, TOKENS, head_dim))
    return mx.array((values * scale + offset).astype(np.float32))


def quantised(head_dim: int, bits: int, dtype: mx.Dtype = mx.float32) -> Quantised:
    made = coding(head_dim, dtype, bits)
    assert isinstance(made, Quantised)
    return made


def by_hand(how: Quantised, stored: tuple[mx.array, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The rows that the stored words mean, and the step of each element, from the words' bits."""
    words, scales, biases = (
        np.array(part.astype(mx.float32) if i else part) for i, part in enumerate(stored)
    )
    places = np.arange(32 // how.bits) * how.bits
    codes = (words[..., None] >> places.astype(np.uint32)) & (2**how.bits - 1)
    codes = codes.reshape(*words.shape[:-1], how.head_dim).astype(np.float64)
    steps = np.repeat(scales.astype(np.float64), how.group, axis=-1)
    return steps * codes + np.repeat(biases.astype(np.float64), how.group, axis=-1), steps


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("head_dim", "group"), [(32, 32), (64, 64), (96, 32), (128, 64)])
def test_decoding_is_what_the_words_say(head_dim: int, group: int, bits: int) -> None:
    how = quantised(head_dim, bits)
    assert how.group == group
    stored = how.encode(rows(head_dim))
    expected, _ = by_hand(how, stored)
    np.testing.assert_allclose(np.array(how.decode(stored)), expected, atol=1e-5)


@given(st.sampled_from([8, 4]), st.integers(0, 1000), st.floats(1e-3, 1e3), st.floats(-100, 100))
def test_no_element_is_further_off_than_a_step_of_its_group(
    bits: int, seed: int, scale: float, offset: float
) -> None:
    how, given_rows = quantised(64, bits), rows(64, seed, scale, offset)
    values = np.array(given_rows).astype(np.float64)
    highest = values.max(axis=-1, keepdims=True)
    if device_kind() != "CPU":  # MLX's kernels take 0 for the highest of a group that has none above it
        highest = np.maximum(highest, 0)
    spread = highest - values.min(axis=-1, keepdims=True)
    allowed = 1.1 * spread / (2**bits - 1) + 1e-5 * np.abs(values).max()
    assert np.all(np.abs(np.array(how.decode(how.encode(given_rows))) - values) <= allowed)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("bits", [8, 4])
def test_half_precision_comes_back_in_its_own_dtype(bits: int, dtype: mx.Dtype) -> None:
    how = quantised(64, bits, dtype)
    stored = how.encode(rows(64).astype(dtype))
    decoded = how.decode(stored)
    assert decoded.dtype == dtype
    expected, _ = by_hand(how, stored)
    np.testing.assert_allclose(
        np.array(decoded.astype(mx.float32)), expected, atol=4 * 2.0 ** (-10 if dtype == mx.float16 else -7)
    )


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_a_head_s_bytes_are_those_of_its_arrays(bits: int | None) -> None:
    how = coding(96, mx.float16, bits)
    stored = how.encode(rows(96).astype(mx.float16))
    assert sum(part.nbytes for part in stored) == HEADS * TOKENS * head_bytes(how)
    assert [part.shape[-1] for part in stored] == [plane.width for plane in how.planes]
    assert [part.dtype for part in stored] == [plane.dtype for plane in how.planes]


@pytest.mark.parametrize("head_dim", [8, 80])
def test_heads_that_no_group_divides_are_refused_with_a_way_out(head_dim: int) -> None:
    with pytest.raises(EngineError, match=rf"heads have {head_dim} elements.*leave kv_bits out"):
        coding(head_dim, mx.float16, 8)
    assert coding(head_dim, mx.float16, None).planes[0].width == head_dim
