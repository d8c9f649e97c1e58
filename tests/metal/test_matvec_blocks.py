"""The matrix-vector kernel on GGUF blocks against float64, on every executor; what it reads, counted."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal.block_types import IQ4_XS, Q2_K, Q3_K, Q4_0, Q4_K, Q5_K, Q6_K, Q8_0, BlockType
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.matvec import Matvec
from metal.matvec_cut import Cut
from metal.matvec_weight import KERNEL_BLOCK_TYPES, BlockWeight
from metal.reference_matvec import matvec
from tests.metal.matvec_oracle import exact, make_scene
from tests.metal.numbers import TOLERANCE, error, wide
from tests.metal.random_blocks import EDGES, oracle, random_blocks

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16

# A few; variants.py has them pairwise. Type, dtype, blocks in a row, columns, rows of x, options, cut.
CASES = [
    (Q4_0, F16, 32, 33, 1, "norm silu", Cut(2, 4, 2)),
    (Q8_0, F32, 33, 33, 1, "norm silu bias", Cut(2, 4, 1)),
    (Q2_K, BF16, 1, 33, 8, "silu", Cut(2, 4, 1)),
    (Q3_K, BF16, 1, 7, 3, "norm residual", None),
    (Q4_K, F16, 9, 7, 8, "norm bias", Cut(4, 2, 2)),
    (Q5_K, BF16, 4, 7, 8, "norm residual", Cut(2, 4, 1, split=4)),
    (Q6_K, F16, 8, 33, 1, "norm gelu", None),
]
GRID = list(product(KERNEL_BLOCK_TYPES, TOLERANCE, (1, 9), (33,), (1, 8), ("", "norm gelu bias residual")))


def check(
    executor: Executor,
    block_type: BlockType,
    dtype: mx.Dtype,
    width: int,
    columns: int,
    rows: int,
    options: str,
    cut: Cut | None = None,
    out_dtype: mx.Dtype | None = None,
) -> None:
    scene = make_scene(dtype, rows, columns, width, options)
    blocks = random_blocks(
        block_type, columns * (2 if scene.activation else 1), width, np.random.default_rng(0)
    )
    kernel = Matvec(
        executor,
        Counter(),
        BlockWeight(mx.array(blocks), block_type),
        norm=scene.norm,
        bias=scene.bias,
        activation=scene.activation,
        out_dtype=out_dtype,
        cut=cut,
    )
    y = kernel(scene.x, scene.residual)
    assert y.dtype == (out_dtype or dtype)
    assert error(y, exact(oracle(blocks, block_type).astype(np.float64), scene)) <= TOLERANCE[y.dtype]


@pytest.mark.parametrize(("block_type", "dtype", "blocks", "columns", "rows", "options", "cut"), CASES)
def test_agrees_with_float64(
    executor: Executor,
    block_type: BlockType,
    dtype: mx.Dtype,
    blocks: int,
    columns: int,
    rows: int,
    options: str,
    cut: Cut | None,
) -> None:
    width = blocks * block_type.block_weights
    check(executor, block_type, dtype, width, columns, rows, options, cut)


@pytest.mark.long
@pytest.mark.parametrize(("block_type", "dtype", "blocks", "columns", "rows", "options"), GRID)
def test_agrees_with_float64_over_the_grid(
    executor: Executor,
    block_type: BlockType,
    dtype: mx.Dtype,
    blocks: int,
    columns: int,
    rows: int,
    options: str,
) -> None:
    check(executor, block_type, dtype, blocks * block_type.block_weights, columns, rows, options)


@pytest.mark.parametrize("block_type", [Q4_K, Q6_K], ids=str)
def test_logits_are_not_rounded(executor: Executor, block_type: BlockType) -> None:
    """What an exponent adds costs a few of 24 bits: less than rounding to float16 would."""
    blocks = random_blocks(block_type, 33, 2048, np.random.default_rng(0))
    scene = make_scene(F16, 1, 33, 2048, "norm")
    weight = BlockWeight(mx.array(blocks), block_type)
    y = Matvec(executor, Counter(), weight, norm=scene.norm, out_dtype=F32)(scene.x)
    assert error(y, exact(oracle(blocks, block_type).astype(np.float64), scene)) <= 2e-5


@pytest.mark.parametrize("block_type", KERNEL_BLOCK_TYPES, ids=str)
def test_every_weight_is_the_gguf_package_s(executor: Executor, block_type: BlockType) -> None:
    """Rows of the unit matrix pick weights one by one; scales at float16's edges, and negative ones."""
    blocks = random_blocks(block_type, 40, 256, np.random.default_rng(1), (*EDGES, 0.37, -1e-3))
    expected = oracle(blocks, block_type)
    kernel = Matvec(executor, Counter(), BlockWeight(mx.array(blocks), block_type))
    unit = mx.eye(256)
    found = mx.concatenate([kernel(unit[at : at + 8]) for at in range(0, 256, 8)])
    np.testing.assert_allclose(wide(found).T, expected, rtol=3e-7, atol=0)


@pytest.mark.parametrize(("block_type", "dtype"), [(Q8_0, F32), (Q6_K, F16), (Q4_K, BF16)], ids=str)
def test_the_reference_twin_agrees_with_float64(block_type: BlockType, dtype: mx.Dtype) -> None:
    scene = make_scene(dtype, 3, 40, 256, "norm gelu bias residual")
    blocks = random_blocks(block_type, 80, 256, np.random.default_rng(0))
    y = matvec(
        scene.x,
        BlockWeight(mx.array(blocks), block_type),
        norm=scene.norm,
        bias=scene.bias,
        activation=scene.activation,
        residual=scene.residual,
    )
    assert y.dtype == dtype
    # The twin rounds after each operation, and its weights; the kernels once.
    assert error(y, exact(oracle(blocks, block_type).astype(np.float64), scene)) <= 3 * TOLERANCE[dtype]


# Bytes of a block that hold scales, and how often a block's lanes fetch these: side by side, in one access.
SCALES = {
    Q4_0: (2, 1),
    Q8_0: (2, 2),
    Q2_K: (20, 4.8),  # each lane 8 of the 16 scales, and the two halves
    Q3_K: (14, 8),
    Q4_K: (16, 8),
    Q5_K: (16, 8),
    Q6_K: (18, 80 / 18),  # each lane 8 of the 16 scales, and the half
}


@pytest.mark.parametrize(("block_type", "rows"), [*product(KERNEL_BLOCK_TYPES, (1,)), (Q4_K, 8)], ids=str)
def test_weights_are_read_once_for_all_rows(kernel_cache: Path, block_type: BlockType, rows: int) -> None:
    reports: list[LaunchReport] = []
    executor = EmulatedExecutor(
        Emulator(kernel_cache, Mode.CHECKED), lambda _name, report: reports.append(report)
    )
    blocks = random_blocks(block_type, 64, 2048, np.random.default_rng(0))
    scene = make_scene(F16, rows, 64, 2048, "norm")
    launches: Counter[str] = Counter()
    Matvec(executor, launches, BlockWeight(mx.array(blocks), block_type), norm=scene.norm)(scene.x)
    assert launches == {"matvec_blocks": 1}
    traffic = reports[0].traffic
    scales, times = SCALES[block_type]
    again = blocks.size // block_type.block_bytes * scales * (times - 1)
    if block_type is Q5_K:  # the fifth bits of all eight groups lie in the same 32 bytes
        again += blocks.size // block_type.block_bytes * 32 * 3
    if block_type is Q3_K:  # and so do the third bits of both halves
        again += blocks.size // block_type.block_bytes * 32
    assert traffic["weight"].bytes_read == pytest.approx(blocks.size + again)
    assert traffic["weight"].lines_read == -(-blocks.size // 128)
    assert traffic["y"].bytes_written == rows * 64 * 2


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (BlockWeight(mx.zeros((4, 136), mx.uint8), IQ4_XS), "IQ4_XS blocks are not supported; Q4_0, Q8_0, "),
        (BlockWeight(mx.zeros((4, 143), mx.uint8), Q4_K), "rows of 143 bytes are not whole Q4_K blocks"),
        (BlockWeight(mx.zeros((4, 36), mx.uint32), Q4_K), r"blocks \(4, 36\) .*uint32; .* of uint8 is taken"),
        (BlockWeight(mx.zeros(144, mx.uint8), Q4_K), r"blocks \(144,\)"),
    ],
)
def test_weights_that_it_does_not_take(executor: Executor, weight: BlockWeight, says: str) -> None:
    with pytest.raises(KernelError, match=says):
        Matvec(executor, Counter(), weight)
