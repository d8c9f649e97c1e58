"""What MLX reads of repacked blocks are the gguf package's weights, to the last bit but a zero's sign."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from metal import block_types as types
from metal.block_types import BlockType
from metal.pieces import PIECE
from metal.repack import GROUP, PACKINGS, Repacked, repack
from tests.metal.random_blocks import EDGES, oracle, random_blocks

EVERY_PACKING = pytest.mark.parametrize("block_type", PACKINGS, ids=str)


def _weights(blocks: NDArray[np.uint8], block_type: BlockType) -> tuple[Repacked, NDArray[np.float32]]:
    """The packing, and what MLX makes of it in float32."""
    packed, packing = repack(mx.array(blocks), block_type), PACKINGS[block_type]
    parts = [packed.scales] if packed.biases is None else [packed.scales, packed.biases]
    if packing.mode == "affine":
        parts = [part.astype(mx.float32) for part in parts]
    weights = mx.dequantize(
        packed.words, *parts, group_size=GROUP, bits=packing.bits, mode=packing.mode, dtype=mx.float32
    )
    return packed, np.array(weights).view(np.float32)


@EVERY_PACKING
@pytest.mark.parametrize("scales", [None, (0.0, -0.0, 2.0**-24, -1023 * 2.0**-24, 2.0**-14, 511.0, -500.0)])
def test_mlx_reads_the_packages_weights(block_type: BlockType, scales: tuple[float, ...] | None) -> None:
    blocks = random_blocks(block_type, 24, 1280, np.random.default_rng(2), scales)
    packed, weights = _weights(blocks, block_type)
    np.testing.assert_array_equal(weights, oracle(blocks, block_type))
    assert packed.scales.dtype == PACKINGS[block_type].scales
    held = sum(part.nbytes for part in (packed.words, packed.scales, packed.biases) if part is not None)
    assert held == 24 * PACKINGS[block_type].bytes_per_row(1280)


@EVERY_PACKING
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 5), blocks_in_row=st.integers(1, 3))
@settings(max_examples=10)
def test_any_finite_blocks_keep_their_weights(
    block_type: BlockType, seed: int, rows: int, blocks_in_row: int
) -> None:
    rng, width = np.random.default_rng(seed), blocks_in_row * block_type.block_weights
    blocks = random_blocks(block_type, rows, width, rng, [*EDGES, *rng.standard_normal(20)])
    np.testing.assert_array_equal(_weights(blocks, block_type)[1], oracle(blocks, block_type))


@pytest.mark.parametrize(
    ("block_type", "scale"), [(types.Q4_0, 8192.0), (types.Q5_0, 4096.0), (types.Q8_0, 512.0)], ids=str
)
def test_biases_beyond_float16_make_scales_float32(block_type: BlockType, scale: float) -> None:
    blocks = random_blocks(block_type, 2, 64, np.random.default_rng(4), (scale,))
    packed, weights = _weights(blocks, block_type)
    assert packed.scales.dtype == mx.float32
    np.testing.assert_array_equal(weights, oracle(blocks, block_type))


@EVERY_PACKING
def test_a_matrix_of_more_than_one_piece_is_whole(block_type: BlockType) -> None:
    width, rows = 8192, PIECE // 8192 + 3
    blocks = np.tile(random_blocks(block_type, 103, width, np.random.default_rng(6)), (rows // 103 + 1, 1))[
        :rows
    ]
    whole, few = repack(mx.array(blocks), block_type), repack(mx.array(blocks[:103]), block_type)
    for part, same in ((whole.words, few.words), (whole.scales, few.scales), (whole.biases, few.biases)):
        assert (part is None) == (same is None)
        if part is not None and same is not None:
            assert mx.array_equal(part, mx.tile(same, (rows // 103 + 1, 1))[:rows])


@EVERY_PACKING
def test_a_product_in_float32_is_that_of_the_packages_weights(block_type: BlockType) -> None:
    rng = np.random.default_rng(8)
    blocks = random_blocks(block_type, 16, 512, rng)
    x = rng.standard_normal((3, 512)).astype(np.float32)
    packed, packing = repack(mx.array(blocks), block_type), PACKINGS[block_type]
    parts = (packed.words, packed.scales, packed.biases)
    y = mx.quantized_matmul(mx.array(x), *parts, group_size=GROUP, bits=packing.bits, mode=packing.mode)
    found: NDArray[np.float32] = np.array(y).view(np.float32)
    wanted = x.astype(np.float64) @ oracle(blocks, block_type).astype(np.float64).T
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
