"""The texts of products for other targets: CUDA by nvcc, Metal and OpenCL C++ by clang."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mlx.core as mx
import pytest

from metal.block_types import Q4_K, Q6_K, BlockType
from metal.matmul_blocks import BlockMatmul
from metal.matvec import Matvec
from metal.matvec_cut import Cut
from metal.matvec_weight import KERNEL_BLOCK_TYPES, AffineWeight, BlockWeight, DenseWeight, Weight
from tests.metal.matvec_oracle import make_scene
from tests.metal.texts import TextExecutor

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16
COLUMNS, WIDTH = 100, 1280

# Pairwise: dtype, bits (0: dense), by exponent, rows of x, options, cut. The first four run in CI too.
CASES = [
    (F32, 0, False, 1, "", Cut(4, 4, 2)),
    (F16, 0, False, 8, "norm silu bias residual", Cut(2, 4, 2, split=2)),
    (F16, 4, True, 1, "norm silu bias", Cut(2, 4, 2)),
    (BF16, 8, True, 8, "norm residual", Cut(4, 4, 1)),
    (BF16, 0, False, 1, "norm gelu residual", Cut(1, 4, 4, split=4)),
    (F16, 0, False, 3, "gelu bias", Cut(2, 8, 3)),
    (F32, 4, False, 4, "gelu bias residual", Cut(1, 4, 2, split=2)),
    (BF16, 8, False, 1, "", Cut(4, 4, 3, split=4)),
]


def blank(rows: int, dtype: mx.Dtype, bits: int, by_exponent: bool) -> Weight:
    if bits == 0:
        return DenseWeight(mx.zeros((rows, WIDTH), dtype))
    packed = mx.zeros((rows, WIDTH * bits // 32), mx.uint32)
    scales = mx.zeros((rows, WIDTH // 64), dtype)
    return AffineWeight(packed, scales, scales, 64, bits, by_exponent)


@pytest.mark.parametrize(
    ("dtype", "bits", "by_exponent", "rows", "options", "cut"),
    [*CASES[:4], *(pytest.param(*case, marks=pytest.mark.long) for case in CASES[4:])],
)
def test_compilers_of_other_targets_accept_it(
    tmp_path: Path, dtype: mx.Dtype, bits: int, by_exponent: bool, rows: int, options: str, cut: Cut
) -> None:
    executor = TextExecutor(tmp_path)
    scene = make_scene(dtype, rows, COLUMNS, WIDTH, options)
    weight = blank(COLUMNS * (2 if scene.activation else 1), dtype, bits, by_exponent)
    Matvec(
        executor,
        Counter(),
        weight,
        norm=scene.norm,
        bias=scene.bias,
        activation=scene.activation,
        cut=cut,
    )(scene.x, scene.residual)
    executor.check_read()


# A compiler takes 7 s for one; the others meet the host's compiler in the selection of variants.
IN_CI = (Q4_K, Q6_K)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=str(one), marks=() if one in IN_CI else pytest.mark.long)
        for number, one in enumerate(KERNEL_BLOCK_TYPES)
    ],
)
def test_compilers_of_other_targets_accept_blocks(tmp_path: Path, number: int) -> None:
    """Types, dtypes and rows in turn."""
    block_type: BlockType = KERNEL_BLOCK_TYPES[number]
    dtype, rows = (F16, BF16, F32)[number % 3], (1, 8)[number % 2]
    weight = BlockWeight(mx.zeros((COLUMNS, block_type.bytes_per_row(WIDTH)), mx.uint8), block_type)
    executor = TextExecutor(tmp_path)
    scene = make_scene(dtype, rows, COLUMNS // 2, WIDTH, "norm silu bias residual")
    product = Matvec(
        executor, Counter(), weight, norm=scene.norm, bias=scene.bias, activation="silu", cut=Cut(2, 4, 2)
    )
    product(scene.x, scene.residual)
    BlockMatmul(executor, Counter(), weight)(mx.zeros((9, WIDTH), dtype))
    executor.check_read()
