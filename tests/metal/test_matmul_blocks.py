"""The matrix product on GGUF's blocks against float64, on every executor; and what it reads, counted."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal.block_types import Q4_K, Q6_K, Q8_0, BlockType
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.matmul_blocks import BlockMatmul
from metal.matvec_weight import KERNEL_BLOCK_TYPES, BlockWeight
from tests.metal.numbers import TOLERANCE, error, normal, wide
from tests.metal.random_blocks import oracle, random_blocks

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16


def check(
    executor: Executor, block_type: BlockType, dtype: mx.Dtype, rows: int, columns: int, blocks: int
) -> None:
    width = blocks * block_type.block_weights
    packed = random_blocks(block_type, columns, width, np.random.default_rng(0))
    x = normal((rows, width), dtype, 1)
    y = BlockMatmul(executor, Counter(), BlockWeight(mx.array(packed), block_type))(x)
    assert y.dtype == dtype
    exact = wide(x) @ oracle(packed, block_type).astype(np.float64).T
    assert error(y, exact) <= TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("block_type", "dtype", "rows", "columns", "blocks"),
    [(Q8_0, F32, 17, 33, 7), (Q6_K, F16, 9, 65, 2)],
    ids=str,
)
def test_agrees_with_float64(
    executor: Executor, block_type: BlockType, dtype: mx.Dtype, rows: int, columns: int, blocks: int
) -> None:
    check(executor, block_type, dtype, rows, columns, blocks)


@pytest.mark.long
@pytest.mark.parametrize(
    ("block_type", "dtype", "rows"), list(product(KERNEL_BLOCK_TYPES, TOLERANCE, (1, 32, 70))), ids=str
)
def test_agrees_with_float64_over_the_grid(
    executor: Executor, block_type: BlockType, dtype: mx.Dtype, rows: int
) -> None:
    check(executor, block_type, dtype, rows, 100, 512 // block_type.block_weights)


def test_one_text_serves_prompts_of_every_length(kernel_cache: Path) -> None:
    reports: list[LaunchReport] = []
    executor = EmulatedExecutor(
        Emulator(kernel_cache, Mode.CHECKED), lambda _name, report: reports.append(report)
    )
    packed = random_blocks(Q4_K, 64, 256, np.random.default_rng(0))
    launches: Counter[str] = Counter()
    kernel = BlockMatmul(executor, launches, BlockWeight(mx.array(packed), Q4_K))
    for rows in (9, 33):
        x = normal((rows, 256), F16, rows)
        assert error(kernel(x), wide(x) @ oracle(packed, Q4_K).astype(np.float64).T) <= TOLERANCE[F16]
    assert launches == {"matmul_blocks": 2}
    short, long = (report.traffic for report in reports)
    assert short["y"].bytes_written == 9 * 64 * 2
    assert short["x"].bytes_read == 9 * 256 * 2
    # The quants once for every 32 rows, the 16 bytes of scales by each of a block's eight parts.
    assert short["weight"].bytes_read == 64 * (128 + 8 * 16)
    assert long["weight"].bytes_read == 2 * 64 * (128 + 8 * 16)


@pytest.mark.parametrize("x", [mx.zeros((9, 512), F16), mx.zeros(256, F16), mx.zeros((9, 256), mx.int32)])
def test_rows_that_it_does_not_take(executor: Executor, x: mx.array) -> None:
    weight = BlockWeight(mx.zeros((4, 144), mx.uint8), Q4_K)
    with pytest.raises(KernelError, match=r"matmul: x \(.* for a weight of width 256"):
        BlockMatmul(executor, Counter(), weight)(x)
