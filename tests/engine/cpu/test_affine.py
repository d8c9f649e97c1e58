"""Packed matrices on a CPU: weights that are made are MLX's, and so is what is multiplied by them."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.cpu.affine import WHOLE, numbers
from engine.layers.matrix import QuantizedTensor
from engine.loading.quantization import QuantizationSpec
from engine.steps.graph import operations


def packed(rows: int, columns: int, bits: int, group: int, dtype: mx.Dtype = mx.float32) -> QuantizedTensor:
    weights = mx.random.normal((rows, columns), key=mx.random.key(rows)).astype(dtype)
    weight, scales, biases = mx.quantize(weights, group_size=group, bits=bits)
    return QuantizedTensor(weight, scales, biases, QuantizationSpec(group, bits))


@pytest.mark.parametrize("bits", WHOLE)
@pytest.mark.parametrize("group", [32, 64, 128])
def test_numbers_are_what_mlx_makes_of_them(bits: int, group: int) -> None:
    of = packed(48, 256, bits, group)
    assert of.biases is not None
    theirs = mx.dequantize(of.weight, of.scales, of.biases, group_size=group, bits=bits)
    np.testing.assert_allclose(
        np.array(numbers(of.weight, of.scales, of.biases, bits)), np.array(theirs), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("columns", [64, 4096])
def test_a_product_is_one_by_the_weights_in_float64(columns: int, rows: int, bits: int) -> None:
    of, x = packed(600, columns, bits, 64), mx.random.normal((rows, columns), key=mx.random.key(7))
    whole = mx.dequantize(of.weight, of.scales, of.biases, group_size=64, bits=bits)
    right = np.array(x).astype(np.float64) @ np.array(whole).astype(np.float64).T
    np.testing.assert_allclose(np.array(of.matmul(x)), right, atol=2e-5 * columns**0.5, rtol=1e-5)


@pytest.mark.skipif(mx.default_device() != mx.cpu, reason="a GPU multiplies packed matrices as they lie")
@pytest.mark.parametrize(
    ("bits", "rows", "is_made"), [(4, 1, False), (4, 2, True), (8, 1, True), (6, 31, False), (6, 32, True)]
)
def test_which_are_multiplied_as_they_lie(bits: int, rows: int, is_made: bool) -> None:
    product = packed(64, 64, bits, 32).matmul(mx.ones((rows, 64)))
    assert ("mlx.QuantizedMatmul" not in operations([product])) == is_made


@pytest.mark.parametrize("bits", [4, 8])
def test_scales_of_half_precision_are_not_rounded_with_the_codes(bits: int) -> None:
    of, x = packed(96, 128, bits, 32, mx.float16), mx.random.normal((3, 128), key=mx.random.key(7))
    assert of.biases is not None
    scales, biases = (each.astype(mx.float32) for each in (of.scales, of.biases))
    whole = mx.dequantize(of.weight, scales, biases, group_size=32, bits=bits)
    right = np.array(x).astype(np.float64) @ np.array(whole).astype(np.float64).T
    np.testing.assert_allclose(np.array(of.matmul(x)), right, atol=2e-5)


def test_codes_of_another_mode_are_made_too() -> None:
    weights = mx.random.normal((96, 128), key=mx.random.key(1))
    weight, scales = mx.quantize(weights, group_size=32, bits=4, mode="mxfp4")
    of, x = QuantizedTensor(weight, scales, None, QuantizationSpec(32, 4, "mxfp4")), mx.ones((40, 128))
    whole = mx.dequantize(weight, scales, group_size=32, bits=4, mode="mxfp4")
    np.testing.assert_allclose(np.array(of.matmul(x)), np.array(x @ whole.T), atol=1e-4)


def test_half_precision_is_multiplied_as_it_lies() -> None:
    product = packed(64, 64, 4, 32, mx.float16).matmul(mx.ones((5, 64), mx.float16))
    assert product.dtype == mx.float16
    assert "mlx.QuantizedMatmul" in operations([product])
