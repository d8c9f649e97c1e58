"""Writing projections to pages, against float64 on every executor; what is written, and what is not."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal import reference_attention, reference_pages
from metal.attention_shape import AttentionShape, HeadNorms
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.page_write import PageWrite
from metal.pools import Pools, no_fence
from tests.metal.attention_oracle import Array, normed, rotated
from tests.metal.numbers import TOLERANCE, error, normal, wide
from tests.metal.texts import TextExecutor

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16


def shaped(
    dtype: mx.Dtype, head_dim: int, group: int, kv_heads: int = 2, **options: object
) -> AttentionShape:
    plain = AttentionShape(group * kv_heads, kv_heads, head_dim, head_dim, 16, dtype, head_dim**-0.5)
    return replace(plain, **options)  # pyright: ignore[reportArgumentType]


# Pairwise: dtype, head size, group, options, rows.
CASES = [
    (shaped(F16, 64, 8), 40),
    (shaped(F32, 64, 3, rotary_dims=0), 1),
    (shaped(BF16, 80, 2), 9),
    (shaped(F32, 96, 1, norm_epsilon=1e-6), 17),
    (shaped(F16, 128, 7, norm_epsilon=1e-5, page_size=32), 12),
    (shaped(F32, 256, 4, rotary_dims=64), 5),
    (shaped(BF16, 64, 16, kv_heads=1, norm_epsilon=1e-6, rotary_dims=32), 8),
]


def angle_rows(positions: list[int], rotary: int) -> mx.array:
    turns = np.array(positions)[:, None] * 10000.0 ** (-2 * np.arange(rotary // 2) / max(rotary, 1))
    return mx.array(np.concatenate([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32))


def scattered(rows: int, slots: int) -> mx.array:
    """A slot for each row, no slot twice; every third row, and what pads, goes nowhere."""
    order = np.random.default_rng(7).permutation(slots)[:rows]
    order[2::3] = -1
    return mx.array(np.concatenate([order, np.full(max(0, 8 - rows), -1)]).astype(np.int32))


def empty_pools(shape: AttentionShape, pages: int) -> Pools:
    pool = (shape.kv_heads, pages * shape.page_size, shape.head_dim)
    keys, values = (mx.full(pool, mx.nan, shape.dtype) for _ in range(2))
    mx.eval(keys, values)
    return Pools.whole(keys, values, no_fence(shape.dtype))


def norms_of(shape: AttentionShape) -> HeadNorms | None:
    if shape.norm_epsilon is None:
        return None
    return HeadNorms(*(normal((shape.head_dim,), shape.dtype, seed) + 1 for seed in (91, 92)))


def exact(qkv: mx.array, angles: mx.array, shape: AttentionShape) -> tuple[Array, Array, Array]:
    """Queries (heads, rows, head_dim), keys and values (kv_heads, rows, head_dim)."""
    cuts = [shape.heads * shape.head_dim, (shape.heads + shape.kv_heads) * shape.head_dim]
    parts = [part.reshape(len(part), -1, shape.head_dim) for part in np.split(wide(qkv), cuts, axis=1)]
    norms = norms_of(shape)
    if norms is not None and shape.norm_epsilon is not None:
        for i, weight in enumerate((norms.query, norms.key)):
            parts[i] = normed(parts[i], wide(weight), shape.norm_epsilon)
    q, k, v = (part.swapaxes(0, 1) for part in parts)
    by = wide(angles)
    q, k = (rotated(part.swapaxes(0, 1), by).swapaxes(0, 1) for part in (q, k))
    return q, k, v


def check_pools(pools: Pools, slots: mx.array, keys: Array, values: Array, tolerance: float) -> None:
    rows = keys.shape[1]
    goes = np.array(slots)[:rows]
    for pool, expected in ((wide(pools.keys), keys), (wide(pools.values), values)):
        untouched = np.ones(pool.shape[1], bool)
        untouched[goes[goes >= 0]] = False
        assert np.isnan(pool[:, untouched]).all()  # nothing but the rows' slots was written
        if (goes >= 0).any():
            assert error(pool[:, goes[goes >= 0]], expected[:, goes >= 0]) <= tolerance


def check(executor: Executor, shape: AttentionShape, rows: int) -> None:
    qkv = normal((rows, shape.qkv_width), shape.dtype, 1)
    angles = angle_rows([5 * row for row in range(rows)], shape.rotary_dims)
    q, k, v = exact(qkv, angles, shape)
    write, tolerance = PageWrite(executor, Counter(), shape), TOLERANCE[shape.dtype]
    slots = scattered(rows, 4 * shape.page_size)

    pools = empty_pools(shape, 4)
    queries, keys, values, fence = write.chunk(qkv, angles, slots, pools, norms=norms_of(shape))
    mx.eval(queries, keys, values, fence)
    assert fence.tolist() == [0] * 8
    for made, expected in ((queries, q), (keys, k), (values, v)):
        assert error(made, expected) <= tolerance
    check_pools(pools, slots, k, v, tolerance)
    goes = np.array(slots)[:rows]
    assert (wide(pools.keys)[:, goes[goes >= 0]] == wide(keys)[:, goes >= 0]).all()


@pytest.mark.parametrize(("shape", "rows"), CASES)
def test_agrees_with_float64(executor: Executor, shape: AttentionShape, rows: int) -> None:
    check(executor, shape, rows)


@pytest.mark.long
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("group", [1, 2, 3, 4, 5, 6, 7, 8, 16])
def test_agrees_with_float64_over_the_grid(
    executor: Executor, dtype: mx.Dtype, head_dim: int, group: int
) -> None:
    check(executor, shaped(dtype, head_dim, group), 33)
    check(executor, shaped(dtype, head_dim, group, norm_epsilon=1e-5, rotary_dims=32), 3)


def test_what_is_not_asked_for_is_not_made(executor: Executor) -> None:
    shape, rows = CASES[0]
    qkv, angles = normal((rows, shape.qkv_width), shape.dtype, 1), angle_rows(list(range(rows)), 64)
    q, k, v = exact(qkv, angles, shape)
    write, slots = PageWrite(executor, Counter(), shape), scattered(rows, 64)
    for queries_too in (False, True):
        pools = empty_pools(shape, 4)
        if queries_too:
            assert error(write.queries(qkv, angles, slots, pools), q) <= 2e-3
        else:
            mx.eval(write.pages(qkv, angles, slots, pools))
        check_pools(pools, slots, k, v, 2e-3)


def test_a_row_that_goes_nowhere_may_hold_anything(executor: Executor) -> None:
    shape = CASES[3][0]
    qkv = mx.full((8, shape.qkv_width), mx.nan, shape.dtype)
    pools = empty_pools(shape, 1)
    pools = replace(pools, keys=mx.zeros_like(pools.keys), values=mx.zeros_like(pools.values))
    mx.eval(pools.keys, pools.values)
    fence = PageWrite(executor, Counter(), shape).pages(
        qkv, angle_rows([0] * 8, 96), mx.full((8,), -1, mx.int32), pools, norms=norms_of(shape)
    )
    mx.eval(fence)
    for pool in (pools.keys, pools.values):
        assert (wide(pool) == 0).all()


@pytest.mark.parametrize("case", [0, 3, 5])
def test_the_reference_twin_agrees_with_float64(case: int) -> None:
    shape, rows = CASES[case]
    qkv = normal((rows, shape.qkv_width), shape.dtype, 1)
    angles = angle_rows(list(range(rows)), shape.rotary_dims)
    _, k, v = exact(qkv, angles, shape)
    _, keys, values = reference_attention.split_heads(qkv, angles, shape, norms_of(shape))
    pools, slots = empty_pools(shape, 4), scattered(rows, 64)
    written = replace(
        pools,
        keys=reference_pages.write(pools.keys, keys, slots),
        values=reference_pages.write(pools.values, values, slots),
    )
    check_pools(written, slots, k, v, TOLERANCE[shape.dtype])


def test_every_byte_moves_once(kernel_cache: Path) -> None:
    reports: dict[str, LaunchReport] = {}
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED), reports.__setitem__)
    shape, rows = replace(CASES[0][0], rotary_dims=0), 32
    launches: Counter[str] = Counter()
    write = PageWrite(executor, launches, shape)
    qkv, slots = normal((rows, shape.qkv_width), shape.dtype), mx.arange(rows).astype(mx.int32)
    write.queries(qkv, angle_rows([0] * rows, 0), slots, empty_pools(shape, 4))
    traffic = reports["page_write"].traffic
    assert launches == {"page_write": 1}
    assert traffic["qkv"].bytes_read == qkv.nbytes
    assert traffic["queries"].bytes_written == rows * shape.heads * shape.head_dim * 2
    for name in ("keys", "values"):
        assert traffic[name].bytes_written == rows * shape.kv_heads * shape.head_dim * 2
        assert traffic[name].bytes_read == 0


def test_refuses_arrays_that_do_not_fit(kernel_cache: Path) -> None:
    shape, rows = CASES[3]
    write = PageWrite(EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN)), Counter(), shape)
    qkv, angles = normal((rows, shape.qkv_width), shape.dtype), angle_rows([0] * rows, 96)
    slots, pools, norms = scattered(rows, 64), empty_pools(shape, 4), norms_of(shape)
    with pytest.raises(KernelError, match=r"page write: qkv is \(17, 280\)"):
        write.pages(qkv[:, :280], angles, slots, pools, norms=norms)
    with pytest.raises(KernelError, match=r"page write: slots is \(8,\) .*, not \(17,\)"):
        write.pages(qkv, angles, slots[:8], pools, norms=norms)
    with pytest.raises(KernelError, match="norms are given exactly when"):
        write.pages(qkv, angles, slots, pools)
    with pytest.raises(KernelError, match="page write: keys is"):
        write.pages(qkv, angles, slots, replace(pools, keys=pools.keys.astype(F16)), norms=norms)
    with pytest.raises(KernelError, match="no whole pages of 16"):
        write.pages(qkv, angles, slots, replace(pools, keys=pools.keys[:, :20]), norms=norms)


@pytest.mark.parametrize("case", [1, 4])
def test_other_compilers_accept_the_text(tmp_path: Path, case: int) -> None:
    shape, rows = CASES[case]
    executor = TextExecutor(tmp_path)
    arrays = normal((rows, shape.qkv_width), shape.dtype), angle_rows([0] * rows, shape.rotary_dims)
    write = PageWrite(executor, Counter(), shape)
    write.chunk(*arrays, scattered(rows, 64), empty_pools(shape, 4), norms=norms_of(shape))
    executor.check_read()
