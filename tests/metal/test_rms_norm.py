"""RMSNorm against float64, on every executor; and what it moves, counted."""

from collections import Counter
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal import reference
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError, KernelRefused
from metal.executors import EmulatedExecutor, Executor, Output
from metal.kernel import Kernel
from metal.rms_norm import RMSNorm
from metal.source import KERNELS
from tests.metal.numbers import TOLERANCE, error, normal, wide

EPSILON = 1e-5

# Pairwise over the dtypes of x and weight, widths around a simdgroup, a vector, a threadgroup, and rows.
CASES = [
    (mx.float32, mx.float32, 1, 1),
    (mx.float32, mx.float16, 64, 5),
    (mx.float32, mx.bfloat16, 1001, 2),
    (mx.float16, mx.float32, 2048, 3),
    (mx.float16, mx.float16, 33, 7),
    (mx.float16, mx.bfloat16, 4100, 1),
    (mx.bfloat16, mx.float32, 127, 4),
    (mx.bfloat16, mx.float16, 1024, 2),
    (mx.bfloat16, mx.bfloat16, 576, 3),
]
LONG = [
    (dtype, dtype, width, 2)
    for dtype in TOLERANCE
    for width in (31, 32, 128, 1023, 1025, 4095, 4096, 8192, 32768)
]


def exact(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)


def check(executor: Executor, dtype: mx.Dtype, weight_dtype: mx.Dtype, width: int, rows: int) -> None:
    norm = RMSNorm(executor, Counter(), EPSILON)
    x, residual = (normal((rows, width), dtype, seed) for seed in range(2))
    weight = normal((width,), weight_dtype, 2)
    assert error(norm(x, weight), exact(wide(x), wide(weight))) <= TOLERANCE[dtype]
    y, total = norm.add(x, residual, weight)
    assert error(total, wide(x) + wide(residual)) <= TOLERANCE[dtype]
    assert error(y, exact(wide(x) + wide(residual), wide(weight))) <= TOLERANCE[dtype]


@pytest.mark.parametrize(("dtype", "weight_dtype", "width", "rows"), CASES)
def test_agrees_with_float64(
    executor: Executor, dtype: mx.Dtype, weight_dtype: mx.Dtype, width: int, rows: int
) -> None:
    check(executor, dtype, weight_dtype, width, rows)


def test_weights_of_two_dtypes_do_not_share_a_compiled_kernel(executor: Executor) -> None:
    norm = RMSNorm(executor, Counter(), EPSILON)
    x = normal((2, 96), mx.float32)
    for dtype in TOLERANCE:
        weight = normal((96,), dtype, 1)
        assert error(norm(x, weight), exact(wide(x), wide(weight))) <= 1e-5


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "weight_dtype", "width", "rows"), LONG)
def test_agrees_with_float64_at_more_widths(
    executor: Executor, dtype: mx.Dtype, weight_dtype: mx.Dtype, width: int, rows: int
) -> None:
    check(executor, dtype, weight_dtype, width, rows)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_reference_twin_agrees_with_float64(dtype: mx.Dtype) -> None:
    x, residual, weight = normal((3, 100), dtype, 0), normal((3, 100), dtype, 1), normal((100,), dtype, 2)
    assert error(reference.rms_norm(x, weight, EPSILON), exact(wide(x), wide(weight))) <= TOLERANCE[dtype]
    y, total = reference.add_rms_norm(x, residual, weight, EPSILON)
    assert error(total, wide(x) + wide(residual)) <= TOLERANCE[dtype]
    assert error(y, exact(wide(total), wide(weight))) <= TOLERANCE[dtype]


@pytest.mark.parametrize(("dtype", "width"), [(mx.float32, 1001), (mx.bfloat16, 1024)])
def test_every_byte_moves_once(kernel_cache: Path, dtype: mx.Dtype, width: int) -> None:
    rows = 6
    reports: list[LaunchReport] = []
    executor = EmulatedExecutor(
        Emulator(kernel_cache, Mode.CHECKED), lambda _name, report: reports.append(report)
    )
    launches: Counter[str] = Counter()
    x, residual = (normal((rows, width), dtype, seed) for seed in range(2))
    weight = normal((width,), dtype, 2)
    RMSNorm(executor, launches, EPSILON).add(x, residual, weight)
    traffic = reports[0].traffic
    assert launches == {"rms_norm": 1}
    for name in ("x", "residual"):
        assert traffic[name].bytes_read == pytest.approx(x.nbytes, rel=0.05)
        assert traffic[name].lines_read == -(-x.nbytes // 128)
    assert traffic["weight"].bytes_read == pytest.approx(rows * weight.nbytes, rel=0.05)
    for name in ("y", "total"):
        assert traffic[name].bytes_written == pytest.approx(x.nbytes, rel=0.05)
        assert traffic[name].bytes_read == 0


PLANTED = {
    "missing barrier": (
        "threadgroup_barrier(mem_flags::mem_threadgroup);\n",
        "\n",
        r"race on 'partial' element \d+|reads 'partial' at byte \d+, which no thread has written",
    ),
    "race": (
        "if (thread_index_in_simdgroup == 0) partial",
        "partial",
        r"race on 'partial' .* wrote it at rms_norm.metal:\d+, .* writes it at rms_norm.metal:\d+",
    ),
    "overrun of the input": (
        "if (at < WIDTH) {",
        "{",
        r"rms_norm.metal:\d+: thread \d+ reads \d+ bytes past the end of 'x'",
    ),
    "overrun of the output": (
        "if (at < WIDTH) store",
        "store",
        r"rms_norm.metal:\d+: thread \d+ (reads|writes) \d+ bytes past the end of '(weight|y)'",
    ),
    "too few partial sums": (
        "threadgroup_array(float, partial, SIMDGROUPS)",
        "threadgroup_array(float, partial, SIMDGROUPS - 1)",
        r"rms_norm.metal:\d+: thread \d+ writes \d+ bytes past the end of 'partial'",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(tmp_path: Path, kernel_cache: Path, bug: str) -> None:
    right, wrong, says = PLANTED[bug]
    text = (KERNELS / "rms_norm.metal").read_text()
    assert text.count(right) == 1
    (tmp_path / "rms_norm.metal").write_text(text.replace(right, wrong))
    kernel = Kernel(
        "rms_norm",
        inputs=("x", "weight"),
        outputs=("y",),
        executor=EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED)),
        launches=Counter(),
        features={"CHUNK": 4, "RESIDUAL": 0, "EPSILON": EPSILON},
        folder=tmp_path,
    )
    with pytest.raises(KernelRefused, match=says):
        kernel(
            {"x": mx.ones((1, 1000)), "weight": mx.ones(1000)},
            grid=(256, 1, 1),
            threadgroup=(256, 1, 1),
            outputs=[Output((1, 1000), mx.float32)],
            template={"T": mx.float32, "WIDTH": 1000, "SIMDGROUPS": 8, "VECTORS": 1},
        )


def test_a_large_row_of_float16_does_not_overflow(executor: Executor) -> None:
    x, weight = mx.full((1, 256), 60000.0, mx.float16), mx.ones((256,), mx.float16)
    assert error(RMSNorm(executor, Counter(), EPSILON)(x, weight), np.ones((1, 256))) <= 2e-3


@pytest.mark.parametrize(
    ("x", "weight", "says"),
    [
        (mx.zeros((2, 8), mx.int32), mx.zeros(8), "floats of 16 or 32 bits"),
        (mx.zeros((2, 8)), mx.zeros(7), r"x \(2, 8\) with weight \(7,\)"),
        (mx.zeros((0, 8)), mx.zeros(8), r"x \(0, 8\)"),
        (mx.zeros((1, 32772)), mx.zeros(32772), "at most 32768"),
    ],
)
def test_what_it_does_not_take(executor: Executor, x: mx.array, weight: mx.array, says: str) -> None:
    with pytest.raises(KernelError, match=says):
        RMSNorm(executor, Counter(), EPSILON)(x, weight)


def test_a_residual_of_another_shape_is_refused(executor: Executor) -> None:
    with pytest.raises(KernelError, match=r"a residual \(1, 8\)"):
        RMSNorm(executor, Counter(), EPSILON).add(mx.zeros((2, 8)), mx.zeros((1, 8)), mx.zeros(8))
