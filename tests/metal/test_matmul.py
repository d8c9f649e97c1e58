"""The matrix product of few rows against float64, on every executor; and what it reads, counted."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal.candidates_parts import exact_norm
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.matmul import Matmul, MatmulCut, matmul_cuts, takes_rows
from metal.matvec import Activation, Norm
from metal.matvec_weight import DenseWeight
from metal.product import Product, few_rows, takes_few_rows
from tests.metal.numbers import TOLERANCE, error, normal, wide
from tests.metal.texts import TextExecutor

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16
EPSILON = 1e-5


def check(
    executor: Executor,
    dtype: mx.Dtype,
    sizes: tuple[int, int, int],
    cut: MatmulCut,
    activation: Activation | None = None,
    *,
    norm: bool = False,
    bias: bool = False,
    residual: bool = False,
) -> None:
    rows, columns, width = sizes
    weight = normal((columns * (2 if activation else 1), width), dtype, 0)
    x, total, before = normal((rows, width), dtype, 1), None, None
    exact = wide(x) @ wide(weight).T
    if norm:
        before = Norm(3 * normal((width,), dtype, 4), EPSILON)
        exact = exact_norm(wide(x), wide(before.weight), EPSILON) @ wide(weight).T
    offset = normal((weight.shape[0],), dtype, 2) if bias else None
    if offset is not None:
        exact = exact + wide(offset)
    if activation == "silu":
        exact = exact[:, :columns] / (1 + np.exp(-exact[:, :columns])) * exact[:, columns:]
    if residual:
        total = normal((rows, columns), dtype, 3)
        exact = exact + wide(total)
    kernel = Matmul(
        executor, Counter(), DenseWeight(weight), cut, norm=before, bias=offset, activation=activation
    )
    y = kernel(x, total)
    assert (y.dtype, y.shape) == (dtype, (rows, columns))
    assert error(y, exact) <= TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("dtype", "sizes", "cut", "activation", "norm", "bias", "residual"),
    [
        # Columns that no threadgroup's and no simdgroup's fit; a width that no span's fits.
        (BF16, (16, 40, 96), MatmulCut(2, 4, 2, 2), None, True, True, True),
        (F16, (32, 72, 160), MatmulCut(1, 4, 2, 2), "silu", True, True, False),
        (BF16, (32, 24, 224), MatmulCut(1, 2, 1, 2), None, False, False, True),
        (F16, (16, 8, 32), MatmulCut(2, 8, 2, 8), None, True, False, False),
        (BF16, (32, 40, 32), MatmulCut(2, 8, 1, 2), "silu", False, False, True),
    ],
    ids=str,
)
def test_agrees_with_float64(
    executor: Executor,
    dtype: mx.Dtype,
    sizes: tuple[int, int, int],
    cut: MatmulCut,
    activation: Activation | None,
    norm: bool,
    bias: bool,
    residual: bool,
) -> None:
    check(executor, dtype, sizes, cut, activation, norm=norm, bias=bias, residual=residual)


@pytest.mark.parametrize(
    ("x_scale", "weight_scale"), [(30000.0, 8.0), (1e-4, 0.02), (0.0, 1.0)], ids=["large", "small", "zeros"]
)
def test_a_norm_of_halves_neither_overflows_nor_vanishes(
    executor: Executor, x_scale: float, weight_scale: float
) -> None:
    x = (mx.clip(normal((32, 96), seed=1), -2, 2) * x_scale).astype(F16)
    scale = (weight_scale * mx.abs(normal((96,), seed=2)) + 0.001).astype(F16)
    weight = normal((16, 96), F16, 3)
    y = Matmul(executor, Counter(), DenseWeight(weight), MatmulCut(2, 4, 1, 4), norm=Norm(scale, EPSILON))(x)
    exact = exact_norm(wide(x), wide(scale), EPSILON) @ wide(weight).T
    assert np.abs(wide(y) - exact).max() <= TOLERANCE[F16] * max(np.abs(exact).max(), 1e-3)


@pytest.mark.parametrize(
    ("norm_scale", "scale"), [(50000.0, 2.0**-14), (2.0**-20, 2.0**12)], ids=["large", "small"]
)
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_norms_of_all_sizes_that_a_dtype_has(
    executor: Executor, dtype: mx.Dtype, norm_scale: float, scale: float
) -> None:
    """The power of two that is left out of it is a number of that dtype, too."""
    x, weight = normal((16, 64), dtype, 1), (normal((16, 64), seed=2) * scale).astype(dtype)
    norm = Norm((norm_scale * (1 + 0.3 * mx.sin(mx.arange(64)))).astype(dtype), EPSILON)
    y = Matmul(executor, Counter(), DenseWeight(weight), MatmulCut(2, 4, 1, 4), norm=norm)(x)
    assert error(y, exact_norm(wide(x), wide(norm.weight), EPSILON) @ wide(weight).T) <= TOLERANCE[dtype]


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "rows", "named"),
    [
        (dtype, rows, (activation, name))
        for dtype, rows, activation in product((F16, BF16), (16, 32), (None, "silu"))
        for name in matmul_cuts(is_paired=activation is not None)
    ],
    ids=str,
)
def test_agrees_with_float64_over_the_grid(
    executor: Executor, dtype: mx.Dtype, rows: int, named: tuple[Activation | None, str]
) -> None:
    activation, name = named
    cut = matmul_cuts(is_paired=activation is not None)[name]
    check(executor, dtype, (rows, 136, 224), cut, activation, norm=True, residual=True)


def test_a_weight_is_read_once_for_all_rows(kernel_cache: Path) -> None:
    reports: list[LaunchReport] = []
    executor = EmulatedExecutor(
        Emulator(kernel_cache, Mode.CHECKED), lambda _name, report: reports.append(report)
    )
    weight, x, scale = normal((64, 96), F16, 0), normal((32, 96), F16, 1), normal((96,), F16, 2)
    launches: Counter[str] = Counter()
    product = Matmul(
        executor, launches, DenseWeight(weight), MatmulCut(2, 4, 1, 2), norm=Norm(scale, EPSILON)
    )
    assert error(product(x), exact_norm(wide(x), wide(scale), EPSILON) @ wide(weight).T) <= TOLERANCE[F16]
    assert launches == {"matmul": 1}
    (report,) = reports
    assert report.traffic["weight"].bytes_read == weight.nbytes
    assert report.traffic["x"].bytes_read == 4 * x.nbytes  # by each simdgroup that has other columns
    assert report.traffic["y"].bytes_written == 32 * 64 * 2


@pytest.mark.parametrize(("dtype", "activation"), [(F16, "silu"), (BF16, None)], ids=str)
def test_compilers_of_other_targets_accept_it(
    tmp_path: Path, dtype: mx.Dtype, activation: Activation | None
) -> None:
    executor = TextExecutor(tmp_path)
    weight, bias, norm = mx.zeros((160, 96), dtype), mx.zeros(160, dtype), Norm(mx.ones(96, dtype), EPSILON)
    cut = next(iter(matmul_cuts(is_paired=activation is not None).values()))
    kernel = Matmul(
        executor, Counter(), DenseWeight(weight), cut, norm=norm, bias=bias, activation=activation
    )
    kernel(mx.zeros((32, 96), dtype), mx.zeros((32, 80 if activation else 160), dtype))
    executor.check_read()


@pytest.mark.parametrize(("shape", "dtype"), [((64, 40), F16), ((60, 64), F16), ((64, 64), F32)], ids=str)
def test_weights_that_it_does_not_take(executor: Executor, shape: tuple[int, int], dtype: mx.Dtype) -> None:
    with pytest.raises(KernelError, match=r"matmul: a weight \(.* is not supported; floats of 16 bits"):
        Matmul(executor, Counter(), DenseWeight(mx.zeros(shape, dtype)), MatmulCut(1, 4, 1, 1))


def test_norms_and_cuts_that_it_does_not_take(executor: Executor) -> None:
    weight = DenseWeight(mx.zeros((64, 64), F16))
    for norm, message in (
        (mx.ones(64, F32), "a norm in .*float32 for .*float16"),
        (mx.ones(32, F16), "norm .*64"),
    ):
        with pytest.raises(KernelError, match=message):
            Matmul(executor, Counter(), weight, MatmulCut(1, 4, 1, 1), norm=Norm(norm, EPSILON))
    with pytest.raises(KernelError, match="3 simdgroups; an even number"):
        Matmul(executor, Counter(), weight, MatmulCut(1, 3, 1, 1))


@pytest.mark.parametrize(
    "x",
    [mx.zeros((9, 64), F16), mx.zeros((48, 64), F16), mx.zeros((16, 32), F16), mx.zeros((16, 64), BF16)],
    ids=lambda x: f"{x.shape} {x.dtype}",
)
def test_rows_that_it_does_not_take(executor: Executor, x: mx.array) -> None:
    kernel = Matmul(executor, Counter(), DenseWeight(mx.zeros((64, 64), F16)), MatmulCut(1, 4, 1, 1))
    with pytest.raises(KernelError, match=r"matmul: x \(.* for a weight of width 64 in .* 16 or 32 rows"):
        kernel(x)


def test_rows_that_it_takes() -> None:
    assert [rows for rows in range(100) if takes_rows(rows)] == [16, 32]


@pytest.mark.parametrize(
    ("product", "is_taken"),
    [
        (Product(64, 64, 1, "float16"), True),
        (Product(64, 64, 1, "float32"), False),
        (Product(64, 60, 1, "bfloat16"), False),
        (Product(48, 64, 1, "bfloat16"), False),
        (Product(64, 64, 1, "bfloat16", bits=4, group=64), False),
        (Product(256, 64, 1, "bfloat16", block="Q4_K"), False),
        (Product(64, 64, 1, "bfloat16", out="float32"), False),
    ],
    ids=str,
)
def test_products_that_are_tried_for_it(product: Product, is_taken: bool) -> None:
    assert takes_few_rows(product) is is_taken


def test_a_product_of_few_rows_is_another_class() -> None:
    product = Product(64, 96, 1, "float16", norm=True, bias=True, activation="silu")
    assert product.key == "matvec dense norm bias silu float16 K64 N96 m1"
    assert few_rows(product).key == "matmul dense norm bias silu float16 K64 N96 m32"
