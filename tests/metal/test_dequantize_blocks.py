"""Floats out of GGUF's blocks bit for bit, the products MLX makes of them, and what both move, counted."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from metal.block_types import IQ4_XS, Q4_0, Q4_K, Q6_K, Q8_0, BlockType
from metal.dequantize_blocks import BlockFloats, DequantizedMatmul
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor
from metal.matvec_weight import KERNEL_BLOCK_TYPES, BlockWeight
from tests.metal.numbers import TOLERANCE, error, normal, wide
from tests.metal.random_blocks import EDGES, oracle, random_blocks
from tests.metal.texts import TextExecutor

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16
BITS = {F32: mx.uint32, F16: mx.uint16, BF16: mx.uint16}
NOTHING = mx.zeros(1)


def check(executor: Executor, block_type: BlockType, dtype: mx.Dtype) -> None:
    """Rows that no simdgroup ends with, all and some; usual scales and those at float16's edges."""
    width = 3 * block_type.block_weights
    for scales in (None, EDGES):
        packed = random_blocks(block_type, 23, width, np.random.default_rng(0), scales)
        floats = BlockFloats(executor, Counter(), BlockWeight(mx.array(packed), block_type))
        for rows in (range(23), range(5, 12)):
            found = floats(rows, dtype, after=NOTHING)
            assert found.dtype == dtype
            exact = bits_of(oracle(packed[rows.start : rows.stop], block_type), dtype)
            np.testing.assert_array_equal(np.array(found.view(BITS[dtype])).view(exact.dtype), exact)


def bits_of(weights: NDArray[np.float32], dtype: mx.Dtype) -> NDArray[np.unsignedinteger]:
    """The bits of weights rounded to nearest, ties to even: NumPy's, and for bfloat16 by carrying."""
    if dtype == F16:
        with np.errstate(over="ignore"):
            return weights.astype(np.float16).view(np.uint16)
    bits = weights.view(np.uint32)
    return bits if dtype == F32 else ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize(("block_type", "dtype"), [(Q4_K, F16), (Q6_K, BF16), (Q8_0, F32)], ids=str)
def test_floats_are_the_package_s_rounded_once(
    executor: Executor, block_type: BlockType, dtype: mx.Dtype
) -> None:
    check(executor, block_type, dtype)


@pytest.mark.long
@pytest.mark.parametrize(("block_type", "dtype"), list(product(KERNEL_BLOCK_TYPES, BITS)), ids=str)
def test_floats_are_the_package_s_rounded_once_over_the_grid(
    executor: Executor, block_type: BlockType, dtype: mx.Dtype
) -> None:
    check(executor, block_type, dtype)


@pytest.mark.parametrize(
    "block_type",
    [Q4_K, Q4_0, *(pytest.param(one, marks=pytest.mark.long) for one in (Q8_0, Q6_K))],
    ids=str,
)
def test_blocks_are_read_once_and_floats_written_once(kernel_cache: Path, block_type: BlockType) -> None:
    reports: list[LaunchReport] = []
    executor = EmulatedExecutor(
        Emulator(kernel_cache, Mode.CHECKED), lambda _name, report: reports.append(report)
    )
    packed = random_blocks(block_type, 64, 512, np.random.default_rng(0))
    launches: Counter[str] = Counter()
    weight = BlockWeight(mx.array(packed), block_type)
    mx.eval(BlockFloats(executor, launches, weight)(range(64), F16, after=NOTHING))
    assert launches == {"dequantize_blocks": 1}
    traffic = reports[0].traffic
    assert traffic["weight"].lines_read == -(-packed.size // 128)
    # Beside each byte once: scales by each of a block's lanes; see docs/kernels.md.
    lanes, scales = {Q4_K: (8, 16), Q4_0: (1, 2), Q8_0: (2, 2), Q6_K: (80 / 18, 18)}[block_type]
    again = packed.size // block_type.block_bytes * scales * (lanes - 1)
    assert traffic["weight"].bytes_read == pytest.approx(packed.size + again)
    assert traffic["floats"].bytes_written == 64 * 512 * 2
    assert traffic["floats"].lines_written == 64 * 512 * 2 // 128


@pytest.mark.parametrize(("at_once", "bands"), [(200, [200]), (90, [72, 72, 56]), (7, [7] * 28 + [4])])
def test_a_product_is_of_all_rows_and_needs_few_of_them_at_once(
    executor: Executor, at_once: int, bands: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, width = 200, 512
    monkeypatch.setattr("metal.dequantize_blocks._BAND_BYTES", at_once * width * 2)
    monkeypatch.setattr("metal.dequantize_blocks._WHOLE_ROWS", 8)
    made: list[int] = []
    floats = BlockFloats.__call__

    def noted(self: BlockFloats, band: range, dtype: mx.Dtype, *, after: mx.array) -> mx.array:
        made.append(len(band))
        return floats(self, band, dtype, after=after)

    monkeypatch.setattr(BlockFloats, "__call__", noted)
    packed = random_blocks(Q4_K, rows, width, np.random.default_rng(0))
    x = normal((9, width), F16, 1)
    launches: Counter[str] = Counter()
    y = DequantizedMatmul(executor, launches, BlockWeight(mx.array(packed), Q4_K))(x)
    assert (y.shape, y.dtype) == ((9, rows), F16)
    assert made == bands
    assert launches == {"dequantize_blocks": len(bands)}
    assert error(y, wide(x) @ oracle(packed, Q4_K).astype(np.float64).T) <= TOLERANCE[F16]


TYPES_IN_CI = (Q4_K,)  # a compiler takes seconds for one


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=str(one), marks=() if one in TYPES_IN_CI else pytest.mark.long)
        for number, one in enumerate(KERNEL_BLOCK_TYPES)
    ],
)
def test_compilers_of_other_targets_accept_it(tmp_path: Path, number: int) -> None:
    """Types and dtypes in turn."""
    block_type = KERNEL_BLOCK_TYPES[number]
    packed = mx.zeros((10, block_type.bytes_per_row(1280)), mx.uint8)
    executor = TextExecutor(tmp_path)
    floats = BlockFloats(executor, Counter(), BlockWeight(packed, block_type))
    floats(range(10), (F16, BF16, F32)[number % 3], after=NOTHING)
    executor.check_read()


def test_what_it_does_not_take(executor: Executor) -> None:
    with pytest.raises(KernelError, match="IQ4_XS blocks are not supported"):
        BlockFloats(executor, Counter(), BlockWeight(mx.zeros((4, 136), mx.uint8), IQ4_XS))
    weight = BlockWeight(mx.zeros((4, 144), mx.uint8), Q4_K)
    floats = BlockFloats(executor, Counter(), weight)
    for rows, dtype in ((range(5), F16), (range(2, 2), F16), (range(0, 4, 2), F16), (range(4), mx.int32)):
        with pytest.raises(KernelError, match=r"dequantize: range\("):
            floats(rows, dtype, after=NOTHING)
    with pytest.raises(KernelError, match=r"matmul: x \(.* for a weight of width 256"):
        DequantizedMatmul(executor, Counter(), weight)(mx.zeros((9, 512), F16))
