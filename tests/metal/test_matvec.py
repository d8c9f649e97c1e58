"""The dense matrix-vector kernel against float64, on every executor; and what it reads, counted."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import mlx.core as mx
import pytest

from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.matvec import Matvec, Norm
from metal.matvec_cut import Cut
from metal.matvec_weight import DenseWeight
from metal.reference_matvec import matvec
from tests.metal.matvec_oracle import exact, make_scene
from tests.metal.numbers import TOLERANCE, error, normal, wide

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16

# Pairwise: dtype, width, columns, rows of x, options, dtype of norm and bias, cut (None for the default).
CASES = [
    (F32, 64, 1, 1, "", F32, None),
    (F32, 2056, 33, 3, "norm residual", F32, Cut(4, 2, 2)),
    (F32, 2048, 7, 8, "gelu bias", F16, Cut(2, 4, 4)),
    (F16, 2048, 256, 1, "norm silu", F16, Cut(1, 4, 4)),
    (F16, 5632, 33, 1, "bias residual", F32, Cut(2, 4, 2)),
    (F16, 8, 33, 2, "norm bias", F16, Cut(4, 1, 1)),
    (F16, 2056, 7, 5, "gelu residual", F16, Cut(1, 4, 3, split=2)),
    (BF16, 5632, 7, 1, "norm bias residual", F32, Cut(8, 4, 1, split=4)),
    (BF16, 64, 256, 4, "silu", BF16, Cut(1, 8, 1)),
    (BF16, 2056, 1, 7, "norm gelu bias", BF16, Cut(1, 4, 2, split=2)),
    (BF16, 264, 33, 6, "norm silu bias residual", BF16, None),
    (F16, 2048, 33, 8, "norm", F16, None),
]
# More columns than one: one alone may lie near zero, and errors are a share of the largest.
GRID = list(
    product(TOLERANCE, (64, 1048, 2048), (3, 7, 33), (1, 2, 4, 8), ("", "norm residual", "norm gelu bias"))
)


def check(
    executor: Executor,
    dtype: mx.Dtype,
    width: int,
    columns: int,
    rows: int,
    options: str,
    side_dtype: mx.Dtype | None = None,
    cut: Cut | None = None,
    out_dtype: mx.Dtype | None = None,
) -> None:
    scene = make_scene(dtype, rows, columns, width, options, side_dtype)
    weight = normal((columns * (2 if scene.activation else 1), width), dtype, 0) * width**-0.5
    kernel = Matvec(
        executor,
        Counter(),
        DenseWeight(weight),
        norm=scene.norm,
        bias=scene.bias,
        activation=scene.activation,
        out_dtype=out_dtype,
        cut=cut,
    )
    y = kernel(scene.x, scene.residual)
    assert y.dtype == (out_dtype or dtype)
    assert error(y, exact(wide(weight), scene)) <= TOLERANCE[y.dtype]


@pytest.mark.parametrize(("dtype", "width", "columns", "rows", "options", "side_dtype", "cut"), CASES)
def test_agrees_with_float64(
    executor: Executor,
    dtype: mx.Dtype,
    width: int,
    columns: int,
    rows: int,
    options: str,
    side_dtype: mx.Dtype,
    cut: Cut | None,
) -> None:
    check(executor, dtype, width, columns, rows, options, side_dtype, cut)


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "width", "columns", "rows", "options"), GRID)
def test_agrees_with_float64_over_the_grid(
    executor: Executor, dtype: mx.Dtype, width: int, columns: int, rows: int, options: str
) -> None:
    check(executor, dtype, width, columns, rows, options)


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_logits_are_not_rounded(executor: Executor, dtype: mx.Dtype) -> None:
    check(executor, dtype, 2048, 33, 1, "norm", out_dtype=F32)


@pytest.mark.parametrize(
    ("dtype", "options"), [(F32, "norm silu bias"), (F16, "norm gelu"), (BF16, "norm bias residual")]
)
def test_the_reference_twin_agrees_with_float64(dtype: mx.Dtype, options: str) -> None:
    scene = make_scene(dtype, 3, 40, 96, options, F32)
    weight = normal((80 if scene.activation else 40, 96), dtype, 0) * 96**-0.5
    y = matvec(
        scene.x,
        DenseWeight(weight),
        norm=scene.norm,
        bias=scene.bias,
        activation=scene.activation,
        residual=scene.residual,
    )
    assert y.dtype == dtype
    # The twin rounds after each operation, the kernels once.
    assert error(y, exact(wide(weight), scene)) <= 2 * TOLERANCE[dtype]


@pytest.mark.parametrize(("rows", "options"), [(1, ""), (1, "norm silu"), (8, "norm"), (8, "gelu")])
def test_weights_are_read_once_for_all_rows(kernel_cache: Path, rows: int, options: str) -> None:
    reports: list[LaunchReport] = []
    executor = EmulatedExecutor(
        Emulator(kernel_cache, Mode.CHECKED), lambda _name, report: reports.append(report)
    )
    scene = make_scene(F16, rows, 64, 1048, options)
    weight = normal((128 if scene.activation else 64, 1048), F16, 0)
    launches: Counter[str] = Counter()
    Matvec(executor, launches, DenseWeight(weight), norm=scene.norm, activation=scene.activation)(scene.x)
    assert launches == {"matvec": 1}
    traffic = reports[0].traffic
    assert traffic["weight"].bytes_read == weight.nbytes
    assert traffic["weight"].lines_read == weight.nbytes // 128
    assert traffic["y"].bytes_written == rows * 64 * 2


def test_a_gate_far_below_zero_gives_zero(executor: Executor) -> None:
    # exp(-gate) is infinite in float32.
    weight = mx.concatenate([mx.full((4, 64), -100.0), mx.ones((4, 64))])
    for activation in ("silu", "gelu"):
        y = Matvec(executor, Counter(), DenseWeight(weight), activation=activation)(mx.ones((1, 64)))
        assert y.tolist() == [[0.0] * 4]


def test_rows_of_large_float16_do_not_overflow_their_squares(executor: Executor) -> None:
    x, weight = mx.full((1, 256), 60000.0, F16), mx.full((8, 256), 1 / 256, F16)
    y = Matvec(executor, Counter(), DenseWeight(weight), norm=Norm(mx.ones(256), 1e-5))(x)
    assert abs(wide(y) - 1).max() <= 2e-3


def test_a_row_of_nan_stays_in_its_row(executor: Executor) -> None:
    x = mx.concatenate([normal((2, 264), F16, 1), mx.full((1, 264), float("nan"), F16)])
    weight = normal((7, 264), F16, 0)
    y = Matvec(executor, Counter(), DenseWeight(weight), norm=Norm(mx.ones(264), 1e-5))(x)
    assert mx.isnan(y).tolist() == [[False] * 7, [False] * 7, [True] * 7]


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (mx.zeros((4, 12)), r"a weight \(4, 12\) is not supported; .* by 8 in width"),
        (mx.zeros((4, 8), mx.int32), "a weight in mlx.core.int32 is not supported"),
        (mx.zeros((8,)), r"a weight \(8,\) is not supported"),
        (mx.zeros((0, 8)), r"a weight \(0, 8\) is not supported"),
    ],
)
def test_weights_that_it_does_not_take(executor: Executor, weight: mx.array, says: str) -> None:
    with pytest.raises(KernelError, match=says):
        Matvec(executor, Counter(), DenseWeight(weight))


@pytest.mark.parametrize(
    ("x", "residual", "says"),
    [
        (mx.zeros((9, 64), F16), None, "9 rows are not supported; 1 to 8 are"),
        (mx.zeros((0, 64), F16), None, "0 rows are not supported"),
        (mx.zeros((1, 64)), None, "x in mlx.core.float32 does not fit"),
        (mx.zeros((1, 72), F16), None, r"x \(1, 72\) for a weight of width 64"),
        (mx.zeros((1, 1, 64), F16), None, r"x \(1, 1, 64\) for a weight of width 64"),
        (mx.zeros((2, 64), F16), mx.zeros((1, 5), F16), r"a residual \(1, 5\) .* for an answer \(2, 5\)"),
        (mx.zeros((1, 64), F16), mx.zeros((1, 5)), "a residual .*float32 for an answer .*float16"),
    ],
)
def test_rows_that_it_does_not_take(
    executor: Executor, x: mx.array, residual: mx.array | None, says: str
) -> None:
    with pytest.raises(KernelError, match=says):
        Matvec(executor, Counter(), DenseWeight(mx.zeros((5, 64), F16)))(x, residual)


def test_sides_that_do_not_fit(executor: Executor) -> None:
    weight = DenseWeight(mx.zeros((5, 64), F16))
    with pytest.raises(KernelError, match=r"a norm \(32,\)"):
        Matvec(executor, Counter(), weight, norm=Norm(mx.ones(32), 1e-5))
    with pytest.raises(KernelError, match=r"a bias \(4,\)"):
        Matvec(executor, Counter(), weight, bias=mx.ones(4))
    with pytest.raises(KernelError, match="5 rows are not as many gates as ups"):
        Matvec(executor, Counter(), weight, activation="silu")
    with pytest.raises(KernelError, match=r"an answer in mlx\.core\.int32"):
        Matvec(executor, Counter(), weight, out_dtype=mx.int32)
