"""Projections that go to pages as they are made, against float64 on every executor; what is read, written."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal.attention_shape import AttentionShape
from metal.candidates_parts import exact_norm
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.matmul import MatmulCut
from metal.matmul_pages import MatmulPages, page_cuts, takes_heads
from metal.matvec import Norm
from metal.matvec_weight import DenseWeight
from metal.pools import Pools, no_fence
from tests.metal.numbers import TOLERANCE, error, normal, wide
from tests.metal.test_page_write import angle_rows, check_pools, empty_pools, exact, scattered, shaped
from tests.metal.texts import TextExecutor

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16
EPSILON = 1e-5


def to(slots: mx.array, pools: Pools, copied: tuple[int, int, int] = (7, 7, 0)) -> mx.array:
    """Where rows go; and a page, onto which, how many tokens; what pools have room for."""
    return mx.concatenate([slots, mx.array([*copied, pools.keys.shape[1], 7, 7, 7, 7], mx.int32)])


def projected(
    shape: AttentionShape, width: int, rows: int, *, bias: bool
) -> tuple[mx.array, DenseWeight, Norm, mx.array | None]:
    """x, a weight, a norm, a bias."""
    weight = normal((shape.qkv_width, width), seed=2) * width**-0.5
    norm = Norm(normal((width,), shape.dtype, 3) + 1, EPSILON)
    added = normal((shape.qkv_width,), shape.dtype, 4) if bias else None
    return normal((rows, width), shape.dtype, 1), DenseWeight(weight.astype(shape.dtype)), norm, added


def check(
    executor: Executor, shape: AttentionShape, width: int, rows: int, cut: MatmulCut, *, bias: bool
) -> None:
    x, weight, norm, added = projected(shape, width, rows, bias=bias)
    angles, slots = angle_rows([5 * row for row in range(rows)], shape.head_dim), scattered(rows, 64)
    pools = empty_pools(shape, 4)
    product = MatmulPages(executor, Counter(), weight, cut, shape, norm=norm, bias=added)
    queries = product(x, angles, to(slots, pools), pools)
    mx.eval(queries)
    qkv = exact_norm(wide(x), wide(norm.weight), EPSILON) @ wide(weight.weight).T
    if added is not None:
        qkv = qkv + wide(added)
    q, k, v = exact(mx.array(qkv.astype("float32")), angles, shape)
    assert error(queries, q) <= TOLERANCE[shape.dtype]
    check_pools(pools, slots, k, v, TOLERANCE[shape.dtype])


@pytest.mark.parametrize(
    ("shape", "width", "rows", "cut", "bias"),
    [
        # A simdgroup's columns of two heads; threadgroups' of queries and keys; more threads than elements.
        (shaped(F16, 64, 3), 96, 32, MatmulCut(2, 4, 2, 2), False),
        (shaped(BF16, 80, 2), 160, 16, MatmulCut(4, 4, 1, 4), True),
        (shaped(F16, 96, 1), 64, 32, MatmulCut(2, 8, 2, 8), True),
        (shaped(BF16, 128, 1, kv_heads=1), 224, 16, MatmulCut(1, 4, 1, 1), False),
    ],
    ids=str,
)
def test_agrees_with_float64(
    executor: Executor, shape: AttentionShape, width: int, rows: int, cut: MatmulCut, bias: bool
) -> None:
    check(executor, shape, width, rows, cut, bias=bias)


@pytest.mark.parametrize(
    ("shape", "cut", "kept"),
    [
        (shaped(F16, 64, 3, kv_heads=3), MatmulCut(2, 4, 2, 2), 11),
        (shaped(BF16, 96, 2), MatmulCut(1, 4, 1, 1), 1),
        (shaped(F16, 128, 1), MatmulCut(2, 8, 2, 8), 15),
    ],
    ids=str,
)
def test_the_page_that_rows_go_on_with_is_copied_up_to_them(
    executor: Executor, shape: AttentionShape, cut: MatmulCut, kept: int
) -> None:
    x, weight, norm, _ = projected(shape, 64, 32, bias=False)
    keys, values = (normal((shape.kv_heads, 6 * 16, shape.head_dim), shape.dtype, seed) for seed in (5, 6))
    mx.eval(keys, values)
    before = wide(keys), wide(values)
    pools = Pools.whole(keys, values, no_fence(shape.dtype))
    first, source, target = 4 * 16 + kept, 1, 4
    rows = min(28, 2 * 16 - kept)  # to the end of the page, and in the next one
    slots = mx.array([first + row if row < rows else -1 for row in range(32)], dtype=mx.int32)
    angles = angle_rows([3 * row for row in range(32)], shape.head_dim)
    product = MatmulPages(executor, Counter(), weight, cut, shape, norm=norm)
    mx.eval(product(x, angles, to(slots, pools, (source, target, kept)), pools))
    qkv = exact_norm(wide(x), wide(norm.weight), EPSILON) @ wide(weight.weight).T
    _, *made = exact(mx.array(qkv.astype("float32")), angles, shape)
    for pool, was, written in zip((pools.keys, pools.values), before, made, strict=True):
        now = wide(pool)
        np.testing.assert_array_equal(now[:, 4 * 16 : first], was[:, 16 : 16 + kept])
        assert np.abs(now[:, first : first + rows] - written[:, :rows]).max() <= 0.03 * np.abs(written).max()
        np.testing.assert_array_equal(now[:, : 4 * 16], was[:, : 4 * 16])
        np.testing.assert_array_equal(now[:, first + rows :], was[:, first + rows :])


@pytest.mark.long
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("group", [1, 4, 8])
def test_agrees_with_float64_over_the_grid(
    executor: Executor, dtype: mx.Dtype, head_dim: int, group: int
) -> None:
    for cut in page_cuts().values():
        check(executor, shaped(dtype, head_dim, group), 160, 32, cut, bias=True)


def test_weights_are_read_once_and_pages_written_once(kernel_cache: Path) -> None:
    reports: dict[str, LaunchReport] = {}
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED), reports.__setitem__)
    shape, rows = shaped(F16, 64, 3), 32
    x, weight, norm, _ = projected(shape, 64, rows, bias=False)
    launches: Counter[str] = Counter()
    product = MatmulPages(executor, launches, weight, MatmulCut(2, 4, 1, 4), shape, norm=norm)
    pools = empty_pools(shape, 4)
    product(x, angle_rows([0] * rows, 64), to(mx.arange(rows).astype(mx.int32), pools), pools)
    traffic = reports["matmul"].traffic
    assert launches == {"matmul": 1}
    assert traffic["weight"].bytes_read == weight.weight.nbytes
    assert traffic["queries"].bytes_written == rows * shape.heads * shape.head_dim * 2
    for name in ("keys", "values"):
        assert traffic[name].bytes_written == rows * shape.kv_heads * shape.head_dim * 2
        assert traffic[name].bytes_read == 0


@pytest.mark.parametrize("bias", [True, False])
def test_compilers_of_other_targets_accept_it(tmp_path: Path, bias: bool) -> None:
    executor = TextExecutor(tmp_path)
    shape = shaped(F16 if bias else BF16, 64, 2)
    x, weight, norm, added = projected(shape, 96, 32, bias=bias)
    cut = next(iter(page_cuts().values()))
    product = MatmulPages(executor, Counter(), weight, cut, shape, norm=norm, bias=added)
    pools = empty_pools(shape, 4)
    product(x, angle_rows([0] * 32, 64), to(scattered(32, 64), pools), pools)
    executor.check_read()


@pytest.mark.parametrize(
    ("shape", "is_taken"),
    [
        (shaped(F16, 64, 2), True),
        (shaped(F16, 64, 2, window=64), True),
        (shaped(F16, 64, 2, rotary_dims=32), False),
        (shaped(F16, 64, 2, norm_epsilon=1e-6), False),
    ],
    ids=str,
)
def test_heads_that_it_takes(executor: Executor, shape: AttentionShape, is_taken: bool) -> None:
    assert takes_heads(shape) is is_taken
    _, weight, norm, _ = projected(shape, 64, 32, bias=False)
    if not is_taken:
        with pytest.raises(KernelError, match="does not make heads of"):
            MatmulPages(executor, Counter(), weight, MatmulCut(1, 4, 1, 1), shape, norm=norm)


def test_refuses_arrays_that_do_not_fit(executor: Executor) -> None:
    shape = shaped(F16, 64, 2)
    x, weight, norm, _ = projected(shape, 64, 32, bias=False)
    product = MatmulPages(executor, Counter(), weight, MatmulCut(1, 4, 1, 1), shape, norm=norm)
    angles, pools = angle_rows([0] * 32, 64), empty_pools(shape, 4)
    slots = to(scattered(32, 64), pools)
    with pytest.raises(KernelError, match=r"matmul: x \(24, 64\)"):
        product(x[:24], angles, slots, pools)
    with pytest.raises(KernelError, match=r"matmul: angles is \(32, 32\)"):
        product(x, angles[:, :32], slots, pools)
    with pytest.raises(KernelError, match=r"matmul: slots is \(32,\)"):
        product(x, angles, slots[:32], pools)
    with pytest.raises(KernelError, match="matmul: keys is"):
        product(x, angles, slots, replace(pools, keys=pools.keys.astype(F32)))
    with pytest.raises(KernelError, match="does not make heads of"):
        MatmulPages(
            executor, Counter(), DenseWeight(weight.weight[:64]), MatmulCut(1, 4, 1, 1), shape, norm=norm
        )
