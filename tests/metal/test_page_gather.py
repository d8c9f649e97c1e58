"""Gathering pages into contiguous arrays: bit for bit, each byte once, on every executor."""

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
from metal.page_gather import PageGather
from metal.pools import Pools, no_fence
from tests.metal.numbers import normal, wide
from tests.metal.texts import TextExecutor


def shaped(dtype: mx.Dtype, head_dim: int, kv_heads: int, page_size: int) -> AttentionShape:
    return AttentionShape(kv_heads, kv_heads, head_dim, head_dim, page_size, dtype, 1.0)


# Pairwise: dtype, head size, heads, page size; first token, tokens.
CASES = [
    (shaped(mx.float16, 64, 2, 16), 0, 1),
    (shaped(mx.bfloat16, 80, 1, 32), 31, 34),
    (shaped(mx.float32, 96, 3, 16), 17, 15),
    (shaped(mx.float16, 128, 1, 32), 5, 155),
    (shaped(mx.float32, 256, 2, 32), 64, 64),
    (shaped(mx.bfloat16, 64, 4, 16), 15, 65),
]
TABLE = [7, 2, 9, 0, 5]


def filled_pools(shape: AttentionShape, seed: int = 0) -> Pools:
    pool = (shape.kv_heads, 10 * shape.page_size, shape.head_dim)
    keys, values = (normal(pool, shape.dtype, 2 * seed + which) for which in (1, 2))
    mx.eval(keys, values)
    return Pools.whole(keys, values, no_fence(shape.dtype))


def gathered(
    executor: Executor, shape: AttentionShape, pools: Pools, table: list[int], first: int, tokens: int
) -> tuple[mx.array, mx.array]:
    gather = PageGather(executor, Counter(), shape)
    pages = mx.array(table, dtype=mx.int32)
    keys, values, fence = gather(pools, pages, mx.array([first], mx.int32), tokens)
    mx.eval(keys, values, fence)
    assert fence.tolist() == [0] * 8
    return keys, values


def check(executor: Executor, shape: AttentionShape, first: int, tokens: int) -> None:
    pools, size = filled_pools(shape), shape.page_size
    slots = [TABLE[token // size] * size + token % size for token in range(first, first + tokens)]
    made = gathered(executor, shape, pools, TABLE, first, tokens)
    for result, pool in zip(made, (pools.keys, pools.values), strict=True):
        assert (wide(result) == wide(pool)[:, slots]).all()


@pytest.mark.parametrize(("shape", "first", "tokens"), CASES)
def test_gathers_bit_for_bit(executor: Executor, shape: AttentionShape, first: int, tokens: int) -> None:
    check(executor, shape, first, tokens)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("page_size", [16, 32])
def test_gathers_bit_for_bit_over_the_grid(
    executor: Executor, dtype: mx.Dtype, head_dim: int, page_size: int
) -> None:
    for first, tokens in ((0, 1), (page_size - 1, 2), (page_size, page_size), (3, 4 * page_size + 1)):
        check(executor, shaped(dtype, head_dim, 2, page_size), first, tokens)


def test_bits_that_are_no_number_are_kept(executor: Executor) -> None:
    shape = CASES[0][0]
    bits = mx.array(np.random.default_rng(3).integers(0, 1 << 16, (2, 160, 64)).astype(np.uint16))
    pools = Pools.whole(bits.view(mx.float16), bits.view(mx.float16), no_fence(mx.float16))
    keys, values = gathered(executor, shape, pools, [0], 0, 16)
    for result in (keys, values):
        assert (np.array(result.view(mx.uint16)) == np.array(bits)[:, :16]).all()


def test_a_token_in_no_page_is_zero(executor: Executor) -> None:
    shape = CASES[0][0]
    pools = filled_pools(shape)
    keys, values = gathered(executor, shape, pools, [-1, 3, -1], 0, 40)
    for result, pool in ((keys, pools.keys), (values, pools.values)):
        assert (wide(result)[:, :16] == 0).all()
        assert (wide(result)[:, 32:] == 0).all()
        assert (wide(result)[:, 16:32] == wide(pool)[:, 48:64]).all()


@pytest.mark.parametrize(("shape", "first", "tokens"), CASES[:3])
def test_the_reference_twin_gathers_the_same(shape: AttentionShape, first: int, tokens: int) -> None:
    pools, size = filled_pools(shape), shape.page_size
    table, begin = mx.array([*TABLE, -1], dtype=mx.int32), mx.array([first], mx.int32)
    slots = [TABLE[token // size] * size + token % size for token in range(first, first + tokens)]
    result = reference_pages.gather(pools.keys, table, begin, tokens, size)
    assert (wide(result) == wide(pools.keys)[:, slots]).all()
    beyond = reference_pages.gather(pools.keys, table, mx.array([5 * size], mx.int32), 2, size)
    assert (wide(beyond) == 0).all()


@pytest.mark.parametrize("case", [1, 3])
def test_every_byte_moves_once(kernel_cache: Path, case: int) -> None:
    reports: dict[str, LaunchReport] = {}
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED), reports.__setitem__)
    shape, first, tokens = CASES[case]
    keys, _ = gathered(executor, shape, filled_pools(shape), TABLE, first, tokens)
    traffic = reports["page_gather"].traffic
    for name in ("keys", "values"):
        assert traffic[name].bytes_read == keys.nbytes
        assert traffic[f"out_{name}"].bytes_written == keys.nbytes
        assert traffic[f"out_{name}"].bytes_read == 0


def test_refuses_arrays_that_do_not_fit(kernel_cache: Path) -> None:
    shape = CASES[0][0]
    gather = PageGather(EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN)), Counter(), shape)
    pools, table, first = filled_pools(shape), mx.array(TABLE, dtype=mx.int32), mx.zeros(1, mx.int32)
    with pytest.raises(KernelError, match="81 tokens of 5 pages of 16 tokens"):
        gather(pools, table, first, 81)
    with pytest.raises(KernelError, match="0 tokens of 5 pages"):
        gather(pools, table, first, 0)
    with pytest.raises(KernelError, match="page gather: table is"):
        gather(pools, table[None], first, 1)
    with pytest.raises(KernelError, match="page gather: values is"):
        gather(replace(pools, values=pools.values[:1]), table, first, 1)


def test_other_compilers_accept_the_text(tmp_path: Path) -> None:
    executor = TextExecutor(tmp_path)
    shape, _, tokens = CASES[1]
    table, first = mx.array(TABLE, dtype=mx.int32), mx.zeros(1, mx.int32)
    PageGather(executor, Counter(), shape)(filled_pools(shape), table, first, tokens)
    executor.check_read()
