"""Layers compute with the weights that the gguf package reads, in whatever form these lie."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.layers.linear import (
    DenseLinear,
    JoinedLinear,
    QuantizedLinear,
    load_embedding,
    load_joined,
    load_linear,
)
from engine.layers.matrix import BlockTensor, QuantizedTensor
from engine.loading.gguf.placement import place
from metal.block_types import BLOCK_TYPES, Q4_0, Q4_K, Q5_0, Q6_K, Q8_0, BlockType
from tests.engine.layers.block_file import Stored, block_weights
from tests.metal.numbers import normal, wide
from tests.metal.random_blocks import oracle, random_blocks

ROWS, WIDTH = 24, 512
EVERY_TYPE = pytest.mark.parametrize("block_type", BLOCK_TYPES, ids=str)
EVERY_FORM = pytest.mark.parametrize("readable", [BLOCK_TYPES, ()], ids=["kernels", "no kernels"])
EPSILON = {mx.float32: 1e-5, mx.float16: 1e-2, mx.bfloat16: 6e-2}
"""Errors allowed of a product, relative to its largest value; on a CPU, MLX sums 16-bit ones in 16 bits."""


def _random(block_type: BlockType, seed: int, rows: int = ROWS) -> NDArray[np.uint8]:
    return random_blocks(block_type, rows, WIDTH, np.random.default_rng(seed))


def _stored(block_type: BlockType, seed: int) -> Stored:
    return block_type, _random(block_type, seed)


def _assert_product(
    y: mx.array, x: mx.array, weights: NDArray[np.float32], bias: float | NDArray[np.float64] = 0.0
) -> None:
    wanted = wide(x) @ weights.astype(np.float64).T + bias
    assert y.dtype == x.dtype
    np.testing.assert_allclose(wide(y), wanted, rtol=0, atol=EPSILON[x.dtype] * np.abs(wanted).max())


@EVERY_TYPE
@EVERY_FORM
@pytest.mark.parametrize("dtype", EPSILON, ids=str)
def test_a_product_is_that_of_the_packages_weights(
    tmp_path: Path, block_type: BlockType, readable: Collection[BlockType], dtype: mx.Dtype
) -> None:
    blocks = _random(block_type, 1)
    bias = np.full(ROWS, 0.5, np.float32)
    tensors: dict[str, Stored] = {"a.weight": (block_type, blocks), "a.bias": (None, bias)}
    weights = block_weights(tmp_path / "file", tensors, dtype, readable)
    linear = load_linear(weights.at("a"), WIDTH, ROWS, bias=True)
    x = normal((3, WIDTH), dtype)
    _assert_product(linear(x), x, oracle(blocks, block_type), 0.5)
    form = place(block_type, dtype, readable).form
    assert isinstance(linear, DenseLinear if form == "dense" else QuantizedLinear)
    if isinstance(linear, QuantizedLinear):
        assert isinstance(linear.tensor, BlockTensor if form == "blocks" else QuantizedTensor)
    assert not weights.untaken()


@EVERY_TYPE
@EVERY_FORM
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16], ids=str)
def test_what_is_counted_is_what_was_predicted(
    tmp_path: Path, block_type: BlockType, readable: Collection[BlockType], dtype: mx.Dtype
) -> None:
    weights = block_weights(tmp_path / "file", {"weight": _stored(block_type, 2)}, dtype, readable)
    load_linear(weights, WIDTH, ROWS)
    assert weights.ledger.weight_bytes == place(block_type, dtype, readable).bytes(ROWS, WIDTH)
    assert weights.ledger.parameters == ROWS * WIDTH


@EVERY_TYPE
@EVERY_FORM
def test_rows_of_a_table_are_the_packages_to_the_bit(
    tmp_path: Path, block_type: BlockType, readable: Collection[BlockType]
) -> None:
    blocks = _random(block_type, 3)
    ids = [5, 0, 23, 5]
    for dtype, known in ((mx.float32, np.float32), (mx.float16, np.float16)):
        weights = block_weights(tmp_path / "file", {"weight": (block_type, blocks)}, dtype, readable)
        embedding = load_embedding(weights, ROWS, WIDTH)
        rows = embedding(mx.array(ids))
        assert rows.dtype == embedding.dtype == dtype
        wanted = oracle(blocks[ids], block_type).astype(known)
        np.testing.assert_array_equal(np.array(rows).view(known), wanted)
        x = normal((2, WIDTH), dtype)
        _assert_product(embedding.as_linear()(x), x, oracle(blocks, block_type))


@EVERY_FORM
@pytest.mark.parametrize(
    "types", [(Q4_K, Q4_K, Q4_K), (Q4_K, Q4_K, Q6_K), (Q4_K, Q6_K, Q4_K), (Q8_0, None, Q4_0)]
)
def test_joined_layers_give_their_outputs_in_order(
    tmp_path: Path, readable: Collection[BlockType], types: tuple[BlockType | None, ...]
) -> None:
    tensors: dict[str, Stored] = {}
    products: list[NDArray[np.float32]] = []
    for index, (name, block_type) in enumerate(zip("qkv", types, strict=True)):
        if block_type is None:
            data = np.random.default_rng(9).standard_normal((ROWS, WIDTH)).astype(np.float32)
        else:
            data = _random(block_type, 10 + index)
        tensors[f"{name}.weight"] = (block_type, data)
        tensors[f"{name}.bias"] = (None, np.full(ROWS, index, np.float32))
        products.append(oracle(data, block_type) if block_type else data)  # pyright: ignore[reportArgumentType]
    weights = block_weights(tmp_path / "file", tensors, mx.float32, readable)
    linear = load_joined(weights, WIDTH, dict.fromkeys("qkv", ROWS), bias=True)
    x = normal((3, WIDTH))
    _assert_product(linear(x), x, np.concatenate(products), np.repeat(np.arange(3.0), ROWS))


def test_neighbours_in_one_form_are_one_matrix(tmp_path: Path) -> None:
    def parts(*types: BlockType) -> list[int]:
        tensors = {f"{index}.weight": _stored(one, index) for index, one in enumerate(types)}
        weights = block_weights(tmp_path / "file", tensors, mx.float32, BLOCK_TYPES)
        linear = load_joined(weights, WIDTH, {str(index): ROWS for index in range(len(types))})
        joined = linear.parts if isinstance(linear, JoinedLinear) else (linear,)
        return [part(mx.zeros((1, WIDTH))).shape[1] // ROWS for part in joined]

    assert parts(Q4_K, Q4_K, Q4_K) == [3]
    assert parts(Q4_K, Q4_K, Q6_K) == [2, 1]
    assert parts(Q4_K, Q6_K, Q4_K) == [1, 1, 1]
    assert parts(Q4_K, Q6_K, Q6_K) == [1, 2]


def test_joined_blocks_are_read_into_one_place(tmp_path: Path) -> None:
    rows, width = 2048, 2048
    some = random_blocks(Q4_K, 64, width, np.random.default_rng(1))
    tensors: dict[str, Stored] = {
        f"{name}.weight": (Q4_K, np.roll(np.tile(some, (rows // 64, 1)), index, axis=0))
        for index, name in enumerate("qkv")
    }
    weights = block_weights(tmp_path / "file", tensors, mx.float16, (Q4_K,))
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    linear = load_joined(weights, width, dict.fromkeys("qkv", rows))
    size = 3 * Q4_K.bytes_per_row(width) * rows
    assert isinstance(linear, QuantizedLinear)
    assert isinstance(linear.tensor, BlockTensor)
    assert mx.get_active_memory() - before <= 1.01 * size
    assert mx.get_peak_memory() - before <= 1.05 * size
    wanted = np.concatenate([blocks for _, blocks in tensors.values()])
    np.testing.assert_array_equal(np.array(linear.tensor.blocks), wanted)


def test_a_joined_tensor_with_bad_scales_is_the_one_that_is_named(tmp_path: Path) -> None:
    bad = random_blocks(Q4_K, ROWS, WIDTH, np.random.default_rng(0), (1.0,) * 50 + (np.inf,))
    tensors = {"a.weight": _stored(Q4_K, 1), "b.weight": (Q4_K, bad), "c.weight": _stored(Q4_K, 2)}
    weights = block_weights(tmp_path / "file", tensors, mx.float32, (Q4_K,))
    with pytest.raises(ModelError, match=r"tensor b\.weight has Q4_K scales that are infinite"):
        load_joined(weights, WIDTH, dict.fromkeys("abc", ROWS))


@pytest.mark.parametrize("block_type", [Q4_0, Q6_K], ids=str)
def test_scales_that_are_no_numbers_are_refused_by_the_tensors_name(
    tmp_path: Path, block_type: BlockType
) -> None:
    blocks = random_blocks(block_type, ROWS, WIDTH, np.random.default_rng(0), (1.0,) * 50 + (np.inf,))
    weights = block_weights(tmp_path / "file", {"weight": (block_type, blocks)}, mx.float32)
    with pytest.raises(ModelError, match=f"file: tensor weight has {block_type} scales that are infinite"):
        load_linear(weights, WIDTH, ROWS)


@pytest.mark.parametrize("block_type", [Q6_K, Q5_0, Q4_K], ids=str)
def test_placing_a_large_matrix_needs_little_more_than_both_forms(
    tmp_path: Path, block_type: BlockType
) -> None:
    rows, width = 4096, 4096
    some = random_blocks(block_type, 64, width, np.random.default_rng(1))
    blocks = np.tile(some, (rows // 64, 1))
    weights = block_weights(tmp_path / "file", {"weight": (block_type, blocks)}, mx.float16)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    linear = load_linear(weights, width, rows)
    held = mx.get_active_memory() - before
    assert held <= 1.01 * place(block_type, mx.float16, ()).bytes(rows, width)
    assert mx.get_peak_memory() - before <= blocks.nbytes + held + (24 << 20)
    del linear


def test_a_stack_of_blocks_is_dequantised_one_at_a_time(tmp_path: Path) -> None:
    """Each of them is needed once: that all lie dense in memory at once would be the whole model's size."""
    side, layers = 1024, 16
    some = random_blocks(Q4_K, 32, side, np.random.default_rng(1))
    stored: Stored = (Q4_K, np.tile(some, (side // 32, 1)))
    tensors = {f"{layer}.weight": stored for layer in range(layers)}
    weights = block_weights(tmp_path / "file", tensors, mx.float32, (Q4_K,))
    stack = [load_linear(weights.at(str(layer)), side, side) for layer in range(layers)]
    x = normal((4, side))
    mx.eval(x)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    for linear in stack:
        x = linear(x)
    mx.eval(x)
    dense = side * side * 4
    assert mx.get_peak_memory() - before < 4 * dense
