"""Pages behind slot 32,767 and behind element 2^21: written, copied and gathered where they lie."""

from collections import Counter

import mlx.core as mx
import numpy as np

from metal.executors import Executor
from metal.page_copy import PageCopy
from metal.page_gather import PageGather
from metal.page_write import PageWrite
from metal.pools import Pools, no_fence
from tests.metal.numbers import TOLERANCE, normal, wide
from tests.metal.test_page_write import angle_rows, check_pools, empty_pools, exact, shaped

SHAPE = shaped(mx.float16, 64, 2, kv_heads=2)
PAGES = 2100
FAR = 2090


def test_rows_are_written(executor: Executor) -> None:
    rows = 12
    goes = [16 * FAR + row if row % 3 else 2047 * 16 + 15 + row for row in range(rows)]
    qkv, angles = normal((rows, SHAPE.qkv_width), SHAPE.dtype, 1), angle_rows(list(range(rows)), 64)
    pools, slots = empty_pools(SHAPE, PAGES), mx.array(goes, dtype=mx.int32)
    mx.eval(PageWrite(executor, Counter(), SHAPE).queries(qkv, angles, slots, pools))
    _, keys, values = exact(qkv, angles, SHAPE)
    check_pools(pools, slots, keys, values, TOLERANCE[SHAPE.dtype])


def test_pages_are_copied_and_gathered(executor: Executor) -> None:
    pool = (SHAPE.kv_heads, 16 * PAGES, SHAPE.head_dim)
    keys, values = (normal(pool, SHAPE.dtype, seed) for seed in (1, 2))
    mx.eval(keys, values)
    before = [wide(keys).copy(), wide(values).copy()]
    pools = Pools.whole(keys, values, no_fence(SHAPE.dtype))
    fence = PageCopy(executor, Counter(), SHAPE)([pools], mx.array([2049, FAR], dtype=mx.int32))
    table = mx.array([FAR, 3, PAGES - 1], dtype=mx.int32)
    gather = PageGather(executor, Counter(), SHAPE)
    made = gather(Pools.whole(keys, values, fence), table, mx.array([5], mx.int32), 40)
    mx.eval(made)
    for now, was, found in zip((keys, values), before, made[:2], strict=True):
        was[:, 16 * FAR : 16 * FAR + 16] = was[:, 16 * 2049 : 16 * 2049 + 16]
        np.testing.assert_array_equal(wide(now), was)
        pages = [was[:, 16 * page : 16 * page + 16] for page in (FAR, 3, PAGES - 1)]
        np.testing.assert_array_equal(wide(found), np.concatenate(pages, axis=1)[:, 5:45])
