"""Block formats have the numbers and sizes that GGUF's own package gives them."""

from __future__ import annotations

import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from metal.block_types import BLOCK_TYPES, BY_NAME, BY_NUMBER, MXFP4, Q4_K, Q8_0, BlockType


@pytest.mark.parametrize("block_type", BLOCK_TYPES, ids=str)
def test_a_type_is_that_of_the_gguf_package(block_type: BlockType) -> None:
    known = GGMLQuantizationType[block_type.name]
    assert block_type.number == known.value
    assert (block_type.block_weights, block_type.block_bytes) == GGML_QUANT_SIZES[known]
    assert BY_NUMBER[known.value] is BY_NAME[known.name] is block_type


def test_bytes_and_weights_of_a_row_convert_both_ways() -> None:
    assert Q4_K.bytes_per_row(2048) == 8 * 144
    assert Q4_K.width(8 * 144) == 2048
    assert Q4_K.bits == 4.5
    assert MXFP4.bits == 4.25


@pytest.mark.parametrize("width", [0, -256, 100, 128])
def test_a_row_that_ends_within_a_block_is_refused(width: int) -> None:
    with pytest.raises(ValueError, match=f"rows of {width} weights cannot be Q4_K.*256"):
        Q4_K.bytes_per_row(width)


@pytest.mark.parametrize("row_bytes", [0, -34, 33, 35])
def test_bytes_that_end_within_a_block_are_refused(row_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"rows of {row_bytes} bytes cannot be Q8_0.*34"):
        Q8_0.width(row_bytes)
