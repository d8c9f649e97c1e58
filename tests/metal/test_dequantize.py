"""Every block format dequantises bit for bit as in the gguf package."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from metal.block_types import BLOCK_TYPES, MXFP4, Q4_K, BlockType
from metal.dequantize import dequantize, dequantized_product, has_finite_scales
from tests.metal.random_blocks import EDGES, HALVES, oracle, random_blocks

EVERY_TYPE = pytest.mark.parametrize("block_type", BLOCK_TYPES, ids=str)


def _bits(blocks: NDArray[np.uint8], block_type: BlockType) -> NDArray[np.uint32]:
    return np.array(dequantize(mx.array(blocks), block_type)).view(np.uint32)


@EVERY_TYPE
@pytest.mark.parametrize("width", [256, 1280])
@pytest.mark.parametrize("scales", [None, EDGES], ids=["usual", "edges"])
def test_random_blocks_are_the_packages_weights(
    block_type: BlockType, width: int, scales: tuple[float, ...] | None
) -> None:
    blocks = random_blocks(block_type, 48, width, np.random.default_rng(7), scales)
    np.testing.assert_array_equal(_bits(blocks, block_type), oracle(blocks, block_type).view(np.uint32))


@EVERY_TYPE
@given(data=st.data())
@settings(max_examples=12)
def test_any_bytes_are_the_packages_weights(block_type: BlockType, data: st.DataObject) -> None:
    size = block_type.block_bytes * data.draw(st.integers(1, 3))
    blocks = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), dtype=np.uint8)[None]
    found = _bits(blocks, block_type).view(np.float32)
    np.testing.assert_array_equal(found, oracle(blocks, block_type))  # a NaN is one as there, of any bits


@EVERY_TYPE
@pytest.mark.parametrize("fill", [0x00, 0xFF, 0x0F, 0xF0, 0x3F, 0xC0, 0x80, 0x7F])
def test_extreme_codes_and_packed_scales_are_the_packages_weights(block_type: BlockType, fill: int) -> None:
    rng = np.random.default_rng(fill)
    blocks = random_blocks(block_type, 4, 512, rng, (0.37, -1e-3, 5e-7)).reshape(-1, block_type.block_bytes)
    kept = [at + byte for at in HALVES[block_type] for byte in (0, 1)] or [0]
    filled = np.full_like(blocks, fill)
    filled[:, kept] = blocks[:, kept]
    np.testing.assert_array_equal(_bits(filled, block_type), oracle(filled, block_type).view(np.uint32))


@EVERY_TYPE
def test_every_code_and_every_packed_scale_is_among_the_blocks(block_type: BlockType) -> None:
    """Each byte but those of float16 scales takes each of its 256 values, its neighbours at random."""
    rng = np.random.default_rng(3)
    blocks = random_blocks(block_type, 256, block_type.block_weights, rng)
    kept = {at + byte for at in HALVES[block_type] for byte in (0, 1)}
    for byte in set(range(block_type.block_bytes)) - kept:
        blocks[:, byte] = rng.permutation(256)
    np.testing.assert_array_equal(_bits(blocks, block_type), oracle(blocks, block_type).view(np.uint32))


@pytest.mark.parametrize(
    "block_type",
    [Q4_K, *(pytest.param(one, marks=pytest.mark.long) for one in BLOCK_TYPES if one is not Q4_K)],
    ids=str,
)
def test_a_compiled_graph_gives_the_same_bits(block_type: BlockType) -> None:
    blocks = random_blocks(block_type, 8, 512, np.random.default_rng(11))

    def weights(array: mx.array) -> mx.array:
        return dequantize(array, block_type)

    found = np.array(mx.compile(weights)(mx.array(blocks))).view(np.uint32)
    np.testing.assert_array_equal(found, oracle(blocks, block_type).view(np.uint32))


@EVERY_TYPE
def test_rows_taken_out_of_a_table_are_its_rows(block_type: BlockType) -> None:
    blocks = mx.array(random_blocks(block_type, 40, 512, np.random.default_rng(5)))
    ids = mx.array([39, 0, 7, 7])
    assert mx.array_equal(dequantize(blocks[ids], block_type), dequantize(blocks, block_type)[ids])


def test_rows_that_end_within_a_block_are_refused() -> None:
    with pytest.raises(ValueError, match="143 bytes cannot be Q4_K"):
        dequantize(mx.zeros((2, 143), mx.uint8), Q4_K)


@EVERY_TYPE
def test_finite_scales_are_found_finite_and_one_that_is_not_is_found(block_type: BlockType) -> None:
    blocks = random_blocks(block_type, 16, 1024, np.random.default_rng(1), EDGES)
    assert has_finite_scales(mx.array(blocks), block_type)
    exponent = block_type is MXFP4
    for at in [0] if exponent else HALVES[block_type]:
        for bad in (np.inf, -np.inf, np.nan):
            spoilt, bits = blocks.copy(), np.array([bad], np.float16).view(np.uint8)
            spoilt[15, at : at + 1 if exponent else at + 2] = 255 if exponent else bits
            assert not has_finite_scales(mx.array(spoilt), block_type)
            assert not np.isfinite(oracle(spoilt, block_type)).all()


@pytest.mark.parametrize("rows", [1, 4096, 4100])
def test_a_product_is_of_all_rows_and_needs_few_of_them_at_once(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MULTIPLIED", "MULTIPLIED_BY_CPU"):
        monkeypatch.setattr(f"metal.pieces.{name}", 1 << 22)
    some = random_blocks(Q4_K, 50, 4096, np.random.default_rng(3))
    blocks = mx.array(np.tile(some, (rows // 50 + 1, 1))[:rows])
    x = mx.array(np.random.default_rng(4).standard_normal((2, 4096)).astype(np.float32))
    mx.eval(blocks, x)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    product = dequantized_product(x, blocks, Q4_K)
    mx.eval(product)
    assert mx.get_peak_memory() - before < 16 * (1 << 22)  # dense, all of 4,096 rows take as much alone
    wanted = np.tile(np.array(x) @ oracle(some, Q4_K).astype(np.float64).T, rows // 50 + 1)[:, :rows]
    found: NDArray[np.float32] = np.array(product).view(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
