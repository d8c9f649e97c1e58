"""Prefill attention against float64 on every executor, over shapes, histories and pages full of NaN."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal import reference_attention
from metal.attention_shape import AttentionShape
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor, Launcher, Signature
from metal.page_copy import PageCopy
from metal.page_gather import PageGather
from metal.page_write import PageWrite
from metal.pools import Pages, Pools, no_fence
from metal.prefill_attention import (
    PrefillAttention,
    PrefillCut,
    few_rows_cuts,
    prefill_cuts,
    striped_cuts,
)
from metal.sequences import Sequences
from metal.source import KernelSource
from tests.metal.numbers import TOLERANCE, normal, wide
from tests.metal.prefill_scene import Array, Counts, Scene, attended, make_scene, sequences_of, slots_of
from tests.metal.test_page_write import angle_rows, exact, norms_of, shaped
from tests.metal.texts import TextExecutor

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16
# Pairwise: dtype, head size, group, options; sequences; cut.
CASES = [
    (shaped(F16, 64, 8), [(0, 1), (15, 17), (100, 5)], None),
    (shaped(F32, 64, 1), [(0, 40), (31, 2)], PrefillCut(4, 2, 16)),
    (shaped(BF16, 80, 3, page_size=32), [(64, 33), (0, 31)], None),
    (shaped(F32, 96, 2, window=20), [(70, 30), (3, 1), (19, 3)], None),
    (shaped(F16, 128, 4, softcap=3.0), [(17, 18)], None),
    (shaped(BF16, 128, 7, kv_heads=1, sinks=True, page_size=32), [(47, 6), (0, 16)], PrefillCut(1, 4, 16)),
    (shaped(F16, 256, 1, kv_heads=3), [(16, 33)], None),
    (shaped(F32, 256, 2, kv_heads=1), [(9, 7)], None),
    (shaped(F16, 64, 16, kv_heads=1, window=33, sinks=True), [(200, 9), (-1, 4), (0, 0), (62, 2)], None),
    (shaped(F32, 128, 5, kv_heads=1, softcap=5.0, sinks=True, window=7), [(0, 22)], PrefillCut(1, 1, 8)),
]


def run(
    executor: Executor,
    shape: AttentionShape,
    scene: Scene,
    longest: int,
    cut: PrefillCut | None = None,
    parts: int | None = None,
) -> Array:
    attention = PrefillAttention(executor, Counter(), shape, cut)
    sequences = sequences_of(scene.pages, scene.offsets, scene.queries.shape[1])
    out, fence = attention(
        scene.queries, scene.pages.pools, sequences, longest, parts=parts, sinks=scene.sinks
    )
    mx.eval(out, fence)
    if parts is None:
        assert fence.tolist() == [0] * 8
    else:
        assert fence is out
    return wide(out)


def check(
    executor: Executor,
    shape: AttentionShape,
    sequences: Counts,
    cut: PrefillCut | None = None,
    parts: int | None = None,
) -> None:
    scene = make_scene(shape, sequences)
    out = run(executor, shape, scene, max(new for _, new in sequences), cut, parts)
    sinks = None if scene.sinks is None else wide(scene.sinks)
    queries, starts = wide(scene.queries), scene.offsets
    for index, (history, new) in enumerate(sequences):
        if history < 0 or new == 0:
            continue
        rows = slice(starts[index], starts[index] + new)
        pair = wide(scene.keys[index]), wide(scene.values[index])
        expected = attended(shape, queries[:, rows], *pair, sinks)
        error = np.abs(out[rows] - expected).max() / np.abs(expected).max()
        assert error <= TOLERANCE[shape.dtype]


@pytest.mark.parametrize(("shape", "sequences", "cut"), CASES)
def test_agrees_with_float64(
    executor: Executor, shape: AttentionShape, sequences: Counts, cut: PrefillCut | None
) -> None:
    check(executor, shape, sequences, cut)


STRIPED = [
    PrefillCut(2, 8, 16, striped=True),
    PrefillCut(1, 3, 8, striped=True),
    PrefillCut(2, 1, 8, striped=True),
]


_EACH = [(*case[:2], STRIPED[index % 3], None if index % 2 else 3) for index, case in enumerate(CASES)]


@pytest.mark.parametrize(("shape", "sequences", "cut", "parts"), _EACH)
def test_simdgroups_that_walk_keys_of_their_own_agree(
    executor: Executor, shape: AttentionShape, sequences: Counts, cut: PrefillCut, parts: int | None
) -> None:
    """Also where there are fewer blocks of keys than simdgroups, and where what is found is joined twice."""
    if cut.threadgroup_bytes(shape) > 32768:
        cut = PrefillCut(1, 2, 8, striped=True)
    check(executor, shape, sequences, cut, parts)


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize(("shape", "sequences", "cut"), CASES)
def test_split_keys_agree(
    executor: Executor, shape: AttentionShape, sequences: Counts, cut: PrefillCut | None, parts: int
) -> None:
    """Also into more parts than there are keys for, and where a row sees nothing of a part."""
    check(executor, shape, sequences, cut, parts)


@pytest.mark.long
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("group", [1, 2, 3, 4, 5, 6, 7, 8, 16])
@pytest.mark.parametrize("page_size", [16, 32])
def test_agrees_with_float64_over_the_grid(
    executor: Executor, dtype: mx.Dtype, head_dim: int, group: int, page_size: int
) -> None:
    edges = [(page_size + d, page_size - d) for d in (-1, 0, 1)]
    shape = shaped(dtype, head_dim, group, kv_heads=1, page_size=page_size)
    check(executor, shape, [(0, 1), (0, 65), *edges, (300, 10)])
    check(executor, replace(shape, window=19, sinks=True, softcap=4.0), [(0, 40), *edges])


@pytest.mark.long
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_every_cut_agrees(executor: Executor, dtype: mx.Dtype, head_dim: int) -> None:
    shape = shaped(dtype, head_dim, 3, kv_heads=1)
    for cut in dict.fromkeys([*prefill_cuts(shape), *few_rows_cuts(shape), *striped_cuts(shape)]):
        check(executor, shape, [(17, 30), (0, 9)], cut)
        check(executor, shape, [(17, 30), (0, 9)], cut, parts=2)


def test_32769_keys(executor: Executor) -> None:
    for parts in (None, 128):
        check(executor, shaped(F16, 64, 2, kv_heads=1), [(32766, 3)], parts=parts)


@pytest.mark.parametrize("page_size", [16, 32])
def test_page_boundaries(executor: Executor, page_size: int) -> None:
    shape = shaped(F16, 64, 2, kv_heads=1, page_size=page_size)
    check(
        executor, shape, [(0, 1), *((page_size + d, page_size - d) for d in (-1, 0, 1))], PrefillCut(2, 2, 32)
    )


def test_one_row_of_many_is_what_that_row_alone_is(executor: Executor) -> None:
    """What else is in a batch, or in the same tile, changes no bit of a row's result."""
    shape, sequences = CASES[0][0], [(20, 30), (3, 8)]
    scene = make_scene(shape, sequences)
    together = run(executor, shape, scene, 30)
    alone = replace(
        scene,
        queries=scene.queries[:, 30:],
        pages=replace(scene.pages, tables=scene.pages.tables[1:], lengths=mx.array([3] * 8, mx.int32)),
        offsets=[0, 8],
    )
    assert (run(executor, shape, alone, 8) == together[30:]).all()


def test_scores_that_grow_by_little_and_by_much(executor: Executor) -> None:
    """Sums are rescaled only when a maximum grew a lot; both ways must come to the same."""
    shape, sequences = shaped(F32, 64, 1, kv_heads=1), [(128, 16)]
    scene = make_scene(shape, sequences)
    for slope in (0.02, 0.5, -0.5):
        rise = mx.arange(144)[None, :, None] * slope
        keys = scene.keys[0] * 0.01 + rise  # scores rise by 8 · slope a key
        slots = slots_of(scene, 0, np.arange(144), shape.page_size)
        pool = np.array(scene.pages.pools.keys)
        pool[:, slots] = np.array(keys)
        queries = mx.ones_like(scene.queries)
        changed = replace(scene, queries=queries, pages=_with_keys(scene.pages, mx.array(pool)))
        expected = attended(replace(shape), wide(queries), wide(keys), wide(scene.values[0]), None)
        error = np.abs(run(executor, shape, changed, 16) - expected).max() / np.abs(expected).max()
        assert error <= 1e-5


def test_after_page_write(executor: Executor) -> None:
    """Projections to pages, then attention through the queries: partial rotary, norms, rows that pad."""
    shape = shaped(F32, 64, 2, rotary_dims=32, norm_epsilon=1e-6)
    rows, padding, pages = 21, 3, 2
    qkv = normal((rows + padding, shape.qkv_width), shape.dtype, 1)
    angles = angle_rows(list(range(rows + padding)), shape.rotary_dims)
    slots = [*range(16, 32), *range(5), *[-1] * padding]
    pool = (shape.kv_heads, pages * shape.page_size, shape.head_dim)
    pools = Pools.whole(mx.full(pool, mx.nan), mx.full(pool, mx.nan), no_fence(shape.dtype))
    mx.eval(pools.keys, pools.values)
    write, attend = PageWrite(executor, Counter(), shape), PrefillAttention(executor, Counter(), shape)
    queries = write.queries(qkv, angles, mx.array(slots, dtype=mx.int32), pools, norms=norms_of(shape))
    table, none = mx.array([[1, 0]], dtype=mx.int32), mx.zeros(8, mx.int32)
    out, _ = attend(queries, pools, sequences_of(Pages(pools, table, none), [0, rows], rows + padding), rows)
    mx.eval(out)
    q, k, v = (part[:, :rows] for part in exact(qkv, angles, shape))
    expected = attended(shape, q, k, v, None)
    assert np.abs(wide(out)[:rows] - expected).max() / np.abs(expected).max() <= 1e-5


def test_launching_looks_at_no_contents() -> None:
    """In a compiled step the launchers meet placeholders: evaluating one would raise."""

    class Zeros:
        def build(self, source: KernelSource, signature: Signature) -> Launcher:
            return lambda request: [mx.zeros(output.shape, output.dtype) for output in request.outputs]

    shape, launches = CASES[0][0], Counter[str]()
    write, gather, copy = (make(Zeros(), launches, shape) for make in (PageWrite, PageGather, PageCopy))
    attend = PrefillAttention(Zeros(), launches, shape)

    def step(
        qkv: mx.array,
        angles: mx.array,
        integers: mx.array,
        keys: mx.array,
        fence: mx.array,
        slots: mx.array,
    ) -> mx.array:
        fence = copy([Pools(keys, keys, fence, slots)], integers[:2])
        queries = write.queries(qkv, angles, integers, Pools(keys, keys, fence, slots))
        _, _, fence = gather(Pools(keys, keys, queries, slots), integers, integers[:1], 8)
        sequences = Sequences.of(integers[None], integers, integers, slots=32, rows=8)
        out, fence = attend(queries, Pools(keys, keys, fence, slots), sequences, 8)
        return out

    arguments = (8, shape.qkv_width), (8, 64), (8,), (2, 32, 64), (8,), (4,)
    types = (F16, F32, mx.int32, F16, F16, mx.int32)
    arrays = [mx.zeros(form, dtype) for form, dtype in zip(arguments, types, strict=True)]
    assert mx.compile(step)(*arrays).shape == (8, shape.heads * shape.head_dim)
    assert launches == {"page_copy": 1, "page_write": 1, "page_gather": 1, "prefill_attention": 1}


@pytest.mark.parametrize("case", [0, 3, 5])
def test_the_reference_twin_agrees_with_float64(case: int) -> None:
    shape, sequences, _ = CASES[case]
    scene = make_scene(shape, sequences)
    starts = scene.offsets
    sinks = None if scene.sinks is None else wide(scene.sinks)
    for index, (_, new) in enumerate(sequences):
        q = scene.queries[:, starts[index] : starts[index] + new]
        keys, values = scene.keys[index], scene.values[index]
        made = reference_attention.attend(q.swapaxes(0, 1), keys, values, shape, scene.sinks)
        expected = attended(shape, wide(q), wide(keys), wide(values), sinks)
        assert np.abs(wide(made) - expected).max() / np.abs(expected).max() <= TOLERANCE[shape.dtype]


def test_keys_are_read_once_a_tile_for_the_whole_group(kernel_cache: Path) -> None:
    reports: dict[str, LaunchReport] = {}
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED), reports.__setitem__)
    shape = shaped(F16, 64, 8)
    scene = make_scene(shape, [(124, 4)])
    run(executor, shape, scene, 4)  # 4 tokens of 8 heads: half of a tile of 64 rows a key/value head
    traffic = reports["prefill_attention"].traffic
    for name in ("keys", "values"):
        assert traffic[name].bytes_read == 128 * shape.kv_heads * shape.head_dim * 2
        assert traffic[name].bytes_written == 0
    assert traffic["queries"].bytes_read == scene.queries.nbytes
    assert traffic["out"].bytes_written == scene.queries.nbytes


def test_keys_before_the_window_are_not_read(kernel_cache: Path) -> None:
    reports: dict[str, LaunchReport] = {}
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED), reports.__setitem__)
    shape = shaped(F16, 64, 8, window=10)
    run(executor, shape, make_scene(shape, [(124, 4)]), 4)
    seen = 10 + 3  # the window of the first new token, and the tokens after it
    row = shape.kv_heads * shape.head_dim * 2
    assert reports["prefill_attention"].traffic["keys"].bytes_read == seen * row


@pytest.mark.parametrize("case", [2, 4, 8])
def test_other_compilers_accept_the_text(tmp_path: Path, case: int) -> None:
    executor = TextExecutor(tmp_path)
    shape, sequences, cut = CASES[case]
    for parts in (None, 2):
        for each in (cut, STRIPED[1]):
            run(executor, shape, make_scene(shape, sequences), 1, each, parts)
    executor.check_read()


def test_refuses_arrays_that_do_not_fit(kernel_cache: Path) -> None:
    shape = CASES[0][0]
    attention = PrefillAttention(EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN)), Counter(), shape)
    scene = make_scene(shape, [(5, 3)])
    queries, pools = scene.queries, scene.pages.pools
    sequences = sequences_of(scene.pages, scene.offsets, 3)
    with pytest.raises(KernelError, match="prefill attention: queries is"):
        attention(queries[:, :, :32], pools, sequences, 3)
    with pytest.raises(KernelError, match="at most 4 of 3 rows"):
        attention(queries, pools, sequences, 4)
    with pytest.raises(KernelError, match="keys in 0 parts"):
        attention(queries, pools, sequences, 3, parts=0)
    for changed in (
        replace(sequences, numbers=sequences.numbers[:4]),
        replace(sequences, numbers=sequences.numbers.astype(mx.uint32)),
        replace(sequences, numbers=sequences.numbers[None]),
        replace(sequences, width=100),
        replace(sequences, count=0),
    ):
        with pytest.raises(KernelError, match=r"prefill attention: \(.*\) mlx.* sequences of \d+ pages"):
            attention(queries, pools, changed, 3)
    with pytest.raises(KernelError, match="sinks are given exactly when"):
        attention(queries, pools, sequences, 3, sinks=mx.zeros(16))


def _with_keys(pages: Pages, keys: mx.array) -> Pages:
    return replace(pages, pools=replace(pages.pools, keys=keys))
