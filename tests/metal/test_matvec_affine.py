"""The quantised matrix-vector kernel against float64, on every executor; and what it reads, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.matvec import Matvec
from metal.matvec_cut import Cut
from metal.matvec_weight import AffineWeight
from metal.reference_matvec import matvec
from tests.metal.matvec_oracle import exact, make_scene
from tests.metal.numbers import TOLERANCE, error, normal, wide

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16

# Pairwise: dtype, bits, group, width, columns, rows of x, options, dtype of scales, cut (None: default).
CASES = [
    (F32, 4, 64, 2048, 33, 1, "norm", F32, None),
    (F32, 8, 32, 32, 7, 5, "silu bias", F16, Cut(2, 4, 1)),
    (F32, 4, 128, 1152, 7, 8, "norm residual", F32, Cut(4, 2, 2)),
    (F16, 4, 32, 2048, 256, 1, "norm silu", F16, Cut(2, 4, 2)),
    (F16, 4, 64, 5632, 33, 1, "residual", F16, Cut(4, 4, 1, split=2)),
    (F16, 8, 128, 2048, 33, 1, "norm bias", F32, Cut(1, 8, 4)),
    (F16, 8, 64, 1088, 1, 3, "gelu residual", F16, Cut(1, 4, 2, split=4)),
    (BF16, 4, 128, 5632, 33, 2, "bias", BF16, Cut(1, 4, 2)),
    (BF16, 8, 32, 2080, 33, 8, "norm silu", BF16, Cut(2, 4, 1)),
    (BF16, 4, 32, 1056, 7, 7, "norm gelu bias residual", BF16, Cut(2, 4, 1, split=2)),
    (BF16, 4, 64, 64, 1, 1, "", F32, Cut(8, 2, 1)),
    (F16, 4, 64, 2048, 33, 8, "norm", F16, None),
]
GRID = list(
    product(
        TOLERANCE, (4, 8), (32, 64, 128), (128, 1152), (3, 33), (1, 3, 8), ("", "norm gelu bias residual")
    )
)


def quantized(
    rows: int, width: int, bits: int, group: int, dtype: mx.Dtype, by_exponent: bool = True
) -> AffineWeight:
    plain = normal((rows, width), F32, 0) * width**-0.5
    weight, scales, biases = mx.quantize(plain, group_size=group, bits=bits)
    return AffineWeight(weight, scales.astype(dtype), biases.astype(dtype), group, bits, by_exponent)


def unpacked(weight: AffineWeight) -> NDArray[np.float64]:
    """The matrix in float64, from the definition of MLX's format."""
    shifts = np.arange(0, 32, weight.bits, dtype=np.uint32)
    q = (np.array(weight.weight)[..., None] >> shifts) & np.uint32(2**weight.bits - 1)
    groups = q.reshape(weight.rows, -1, weight.group_size).astype(np.float64)
    values = groups * wide(weight.scales)[..., None] + wide(weight.biases)[..., None]
    return values.reshape(weight.rows, weight.width)


def check(
    executor: Executor,
    dtype: mx.Dtype,
    bits: int,
    group: int,
    width: int,
    columns: int,
    rows: int,
    options: str,
    scale_dtype: mx.Dtype,
    cut: Cut | None = None,
    by_exponent: bool = True,
) -> None:
    scene = make_scene(dtype, rows, columns, width, options)
    weight = quantized(columns * (2 if scene.activation else 1), width, bits, group, scale_dtype, by_exponent)
    kernel = Matvec(
        executor,
        Counter(),
        weight,
        norm=scene.norm,
        bias=scene.bias,
        activation=scene.activation,
        cut=cut,
    )
    y = kernel(scene.x, scene.residual)
    assert y.dtype == dtype
    assert error(y, exact(unpacked(weight), scene)) <= TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("dtype", "bits", "group", "width", "columns", "rows", "options", "scale_dtype", "cut"), CASES
)
def test_agrees_with_float64(
    executor: Executor,
    dtype: mx.Dtype,
    bits: int,
    group: int,
    width: int,
    columns: int,
    rows: int,
    options: str,
    scale_dtype: mx.Dtype,
    cut: Cut | None,
) -> None:
    check(executor, dtype, bits, group, width, columns, rows, options, scale_dtype, cut)


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "bits", "group", "width", "columns", "rows", "options"), GRID)
def test_agrees_with_float64_over_the_grid(
    executor: Executor,
    dtype: mx.Dtype,
    bits: int,
    group: int,
    width: int,
    columns: int,
    rows: int,
    options: str,
) -> None:
    check(executor, dtype, bits, group, width, columns, rows, options, dtype)


@pytest.mark.parametrize(("bits", "rows"), [(4, 1), (8, 1), (4, 4), (8, 4)])
def test_both_ways_to_a_float_agree(executor: Executor, bits: int, rows: int) -> None:
    """What an exponent adds costs 5 of 24 bits; float16, where it is used, keeps 11."""
    weight = quantized(33, 1152, bits, 64, F16)
    x = normal((rows, 1152), F16, 1)
    quick, plain = (
        Matvec(executor, Counter(), replace(weight, by_exponent=way), out_dtype=F32)(x)
        for way in (True, False)
    )
    assert error(quick, wide(plain)) <= 2e-5


@pytest.mark.parametrize(("dtype", "bits", "group"), [(F32, 4, 32), (F16, 8, 64), (BF16, 4, 128)])
def test_the_reference_twin_agrees_with_float64(dtype: mx.Dtype, bits: int, group: int) -> None:
    scene = make_scene(dtype, 3, 40, 256, "norm gelu bias residual")
    weight = quantized(80, 256, bits, group, dtype)
    y = matvec(
        scene.x,
        weight,
        norm=scene.norm,
        bias=scene.bias,
        activation=scene.activation,
        residual=scene.residual,
    )
    assert y.dtype == dtype
    # The twin rounds after each operation, the kernels once.
    assert error(y, exact(unpacked(weight), scene)) <= 2 * TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("bits", "group", "rows", "options"),
    [(4, 32, 1, ""), (4, 64, 1, "norm silu"), (4, 64, 8, "norm"), (8, 32, 8, "gelu")],
)
def test_weights_are_read_once_for_all_rows(
    kernel_cache: Path, bits: int, group: int, rows: int, options: str
) -> None:
    reports: list[LaunchReport] = []
    executor = EmulatedExecutor(
        Emulator(kernel_cache, Mode.CHECKED), lambda _name, report: reports.append(report)
    )
    scene = make_scene(F16, rows, 64, 2048, options)
    weight = quantized(128 if scene.activation else 64, 2048, bits, group, F16)
    launches: Counter[str] = Counter()
    Matvec(executor, launches, weight, norm=scene.norm, activation=scene.activation)(scene.x)
    assert launches == {"matvec_affine": 1}
    traffic = reports[0].traffic
    assert traffic["weight"].bytes_read == weight.weight.nbytes
    lanes_of_a_group = group // weight.lane_width  # each reads the group's scale, from one line
    for name in ("scales", "biases"):
        assert traffic[name].bytes_read == weight.scales.nbytes * lanes_of_a_group
        assert traffic[name].lines_read == weight.scales.nbytes // 128
    assert traffic["y"].bytes_written == rows * 64 * 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bits": 3}, "3 bits in groups of 64 are not supported"),
        ({"group_size": 16}, "4 bits in groups of 16 are not supported"),
        ({"group_size": 32}, r"scales \(5, 2\) .* for a weight \(5, 128\) in groups of 32"),
        ({"weight": mx.zeros((5, 16), mx.int32)}, r"a packed weight \(5, 16\) .*int32"),
        ({"weight": mx.zeros((5, 12), mx.uint32)}, r"scales .* for a weight \(5, 96\) in groups of 64"),
        ({"biases": mx.zeros((5, 2))}, r"scales in mlx.core.float16, biases in mlx.core.float32"),
        ({"biases": mx.zeros((4, 2), F16)}, r"biases \(4, 2\)"),
    ],
)
def test_weights_that_it_does_not_take(executor: Executor, change: dict[str, object], says: str) -> None:
    weight = replace(quantized(5, 128, 4, 64, F16), **change)  # pyright: ignore[reportArgumentType]
    with pytest.raises(KernelError, match=says):
        Matvec(executor, Counter(), weight)
