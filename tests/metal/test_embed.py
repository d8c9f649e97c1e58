"""Rows of embedding tables against MLX's own, on every executor."""

from collections import Counter

import mlx.core as mx
import numpy as np
import pytest

from metal.block_types import Q4_K, Q6_K, BlockType
from metal.embed import Embed
from metal.errors import KernelError
from metal.executors import Executor
from metal.matvec_weight import AffineWeight, BlockWeight, DenseWeight
from tests.metal.numbers import normal, wide
from tests.metal.random_blocks import oracle, random_blocks

IDS = [5, 0, 39, 5]


def check_dense(executor: Executor, dtype: mx.Dtype, width: int) -> None:
    table = normal((40, width), dtype)
    rows = Embed(executor, Counter(), DenseWeight(table), dtype)(mx.array(IDS, dtype=mx.uint32))
    assert (wide(rows) == wide(table)[IDS]).all()


def check_packed(executor: Executor, bits: int, group: int, dtype: mx.Dtype) -> None:
    packed, scales, biases = mx.quantize(normal((40, 384), dtype), group_size=group, bits=bits)
    table = AffineWeight(packed, scales, biases, group, bits)
    rows = Embed(executor, Counter(), table, dtype)(mx.array(IDS, dtype=mx.uint32))
    parts = [array.astype(mx.float32) for array in (scales, biases)]
    exact = wide(mx.dequantize(packed, *parts, group_size=group, bits=bits))[IDS]
    tolerance = {mx.float32: 1e-5, mx.float16: 2e-3, mx.bfloat16: 2e-2}[dtype]
    assert np.abs(wide(rows) - exact).max() / np.abs(exact).max() <= tolerance


def check_blocks(executor: Executor, block_type: BlockType, dtype: mx.Dtype) -> None:
    """Rounded once."""
    blocks = random_blocks(block_type, 40, 1280, np.random.default_rng(0))
    table = BlockWeight(mx.array(blocks), block_type)
    rows = Embed(executor, Counter(), table, dtype)(mx.array(IDS, dtype=mx.uint32))
    one_step = {mx.float32: 3e-7, mx.float16: 1e-3, mx.bfloat16: 8e-3}[dtype]
    np.testing.assert_allclose(wide(rows), oracle(blocks, block_type)[IDS], rtol=one_step, atol=1e-7)


@pytest.mark.parametrize(("dtype", "width"), [(mx.float32, 64), (mx.float16, 1032), (mx.bfloat16, 256)])
def test_dense_rows_are_the_table_s(executor: Executor, dtype: mx.Dtype, width: int) -> None:
    check_dense(executor, dtype, width)


@pytest.mark.parametrize(
    ("bits", "group", "dtype"), [(4, 32, mx.float32), (8, 64, mx.float16), (4, 128, mx.bfloat16)]
)
def test_packed_rows_are_what_mlx_unpacks(executor: Executor, bits: int, group: int, dtype: mx.Dtype) -> None:
    check_packed(executor, bits, group, dtype)


@pytest.mark.parametrize(("block_type", "dtype"), [(Q4_K, mx.float16), (Q6_K, mx.bfloat16)], ids=str)
def test_rows_in_blocks_are_the_gguf_package_s(
    executor: Executor, block_type: BlockType, dtype: mx.Dtype
) -> None:
    """Two formats; variants.py has them all."""
    check_blocks(executor, block_type, dtype)


def test_refuses_what_it_does_not_take(executor: Executor) -> None:
    table = DenseWeight(normal((40, 64)))
    with pytest.raises(KernelError, match="rows in"):
        Embed(executor, Counter(), table, mx.float16)
    with pytest.raises(KernelError, match="embed: ids"):
        Embed(executor, Counter(), table, mx.float32)(mx.array(IDS, dtype=mx.int32))
