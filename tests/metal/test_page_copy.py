"""Copying a page in place: bit for bit, each byte once, nothing else touched, on every executor."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal import reference_pages
from metal.attention_shape import AttentionShape
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.page_copy import MOST_LAYERS, PageCopy, together
from tests.metal.numbers import wide
from tests.metal.test_page_gather import filled_pools, shaped
from tests.metal.texts import TextExecutor

Pair = tuple[int, int]

# Pairwise: dtype, head size, heads, page size; source and target.
CASES = [
    (shaped(mx.float16, 64, 2, 16), (3, 1)),
    (shaped(mx.bfloat16, 80, 1, 32), (0, 9)),
    (shaped(mx.float32, 96, 3, 16), (9, 0)),
    (shaped(mx.float16, 128, 1, 32), (1, 2)),
    (shaped(mx.float32, 256, 2, 32), (8, 7)),
]


def expected(pool: mx.array, pair: Pair, page_size: int) -> np.ndarray:
    pages = wide(pool).reshape(pool.shape[0], -1, page_size, pool.shape[2])
    pages[:, pair[1]] = pages[:, pair[0]]
    return pages.reshape(pool.shape)


def check(executor: Executor, shape: AttentionShape, pair: Pair) -> None:
    pools = filled_pools(shape)
    wanted = [expected(pool, pair, shape.page_size) for pool in (pools.keys, pools.values)]
    fence = PageCopy(executor, Counter(), shape)([pools], mx.array(pair, dtype=mx.int32))
    mx.eval(fence)
    assert fence.tolist() == [0] * 8
    for pool, want in zip((pools.keys, pools.values), wanted, strict=True):
        assert (wide(pool) == want).all()


@pytest.mark.parametrize(("shape", "pair"), CASES)
def test_copies_bit_for_bit(executor: Executor, shape: AttentionShape, pair: Pair) -> None:
    check(executor, shape, pair)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("page_size", [16, 32])
def test_copies_bit_for_bit_over_the_grid(
    executor: Executor, dtype: mx.Dtype, head_dim: int, page_size: int
) -> None:
    check(executor, shaped(dtype, head_dim, 3, page_size), CASES[3][1])


@pytest.mark.parametrize(("shape", "pair"), CASES[:3])
def test_the_reference_twin_copies_the_same(shape: AttentionShape, pair: Pair) -> None:
    pool = filled_pools(shape).keys
    want = expected(pool, pair, shape.page_size)
    copied = reference_pages.copy(pool, mx.array(pair, dtype=mx.int32), shape.page_size)
    assert (wide(copied) == want).all()


@pytest.mark.parametrize("case", [1, 3])
def test_every_byte_moves_once(kernel_cache: Path, case: int) -> None:
    reports: dict[str, LaunchReport] = {}
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED), reports.__setitem__)
    shape, pair = CASES[case]
    launches: Counter[str] = Counter()
    PageCopy(executor, launches, shape)([filled_pools(shape)], mx.array(pair, dtype=mx.int32))
    page = shape.kv_heads * shape.page_size * shape.head_dim * shape.dtype.size
    assert launches == {"page_copy": 1}
    for name in ("keys", "values"):
        traffic = reports["page_copy"].traffic[name]
        assert (traffic.bytes_read, traffic.bytes_written) == (page, page)


@pytest.mark.parametrize(("shape", "pair"), CASES[:2])
def test_the_pair_may_begin_an_array_that_the_device_has(
    executor: Executor, shape: AttentionShape, pair: Pair
) -> None:
    pools = filled_pools(shape)
    want = expected(pools.keys, pair, shape.page_size)
    mx.eval(PageCopy(executor, Counter(), shape)([pools], mx.array([*pair, 7, 7, 7, 7, 7, 7], mx.int32)))
    assert (wide(pools.keys) == want).all()


def test_one_page_is_not_copied_onto_itself(kernel_cache: Path) -> None:
    reports: dict[str, LaunchReport] = {}
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED), reports.__setitem__)
    shape = CASES[0][0]
    mx.eval(PageCopy(executor, Counter(), shape)([filled_pools(shape)], mx.array([4, 4], mx.int32)))
    for name in ("keys", "values"):
        traffic = reports["page_copy"].traffic[name]
        assert (traffic.bytes_read, traffic.bytes_written) == (0, 0)


@pytest.mark.parametrize("layers", [2, MOST_LAYERS])
def test_several_layers_are_copied_in_one_launch(executor: Executor, layers: int) -> None:
    shape, pair = CASES[1]
    pools = [filled_pools(shape, seed) for seed in range(layers)]
    wanted = [[expected(pool, pair, shape.page_size) for pool in (each.keys, each.values)] for each in pools]
    launches: Counter[str] = Counter()
    mx.eval(PageCopy(executor, launches, shape)(pools, mx.array(pair, dtype=mx.int32)))
    assert launches == {"page_copy": 1}
    for each, wants in zip(pools, wanted, strict=True):
        for pool, want in zip((each.keys, each.values), wants, strict=True):
            assert (wide(pool) == want).all()


def test_neighbours_of_one_shape_share_a_launch(kernel_cache: Path) -> None:
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN))
    wide, narrow = (PageCopy(executor, Counter(), CASES[case][0]) for case in (0, 1))
    found = list(together([wide] * 19 + [narrow, wide, wide]))
    ranges = [range(8), range(8, 16), range(16, 19), range(19, 20), range(20, 22)]
    assert found == list(zip([wide, wide, wide, narrow, wide], ranges, strict=True))


def test_refuses_arrays_that_do_not_fit(kernel_cache: Path) -> None:
    shape = CASES[0][0]
    copy = PageCopy(EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN)), Counter(), shape)
    pools = filled_pools(shape)
    with pytest.raises(KernelError, match="page copy: pair is"):
        copy([pools], mx.zeros(4, mx.int32))
    with pytest.raises(KernelError, match="page copy: pair is"):
        copy([pools], mx.zeros(2, mx.float32))
    with pytest.raises(KernelError, match="page copy: pools of 9 layers; 1 to 8 are taken"):
        copy([pools] * 9, mx.zeros(2, mx.int32))
    with pytest.raises(KernelError, match="page copy: fence is"):
        copy([replace(pools, fence=mx.zeros(8, mx.int32))], mx.zeros(2, mx.int32))
    with pytest.raises(KernelError, match="page copy: a fence of 4 elements; it has 8 or more"):
        copy([replace(pools, fence=mx.zeros(4, shape.dtype))], mx.zeros(2, mx.int32))


def test_other_compilers_accept_the_text(tmp_path: Path) -> None:
    executor = TextExecutor(tmp_path)
    shape, pair = CASES[1]
    PageCopy(executor, Counter(), shape)([filled_pools(shape)], mx.array(pair, dtype=mx.int32))
    executor.check_read()
