"""Blocks stay as they lie where kernels read them; else the exact packing goes before dequantised weights."""

from __future__ import annotations

import mlx.core as mx
import pytest

from engine.loading.gguf.placement import kernel_types, place
from metal.block_types import BLOCK_TYPES, IQ4_XS, MXFP4, Q4_0, Q4_K, Q5_1, Q6_K, Q8_0, BlockType
from metal.matvec_weight import KERNEL_BLOCK_TYPES

EVERY_TYPE = pytest.mark.parametrize("block_type", BLOCK_TYPES, ids=str)


@EVERY_TYPE
def test_blocks_that_kernels_read_stay_as_they_lie(block_type: BlockType) -> None:
    placement = place(block_type, mx.float16, [block_type])
    assert str(placement) == f"{block_type} blocks"
    assert "kernels read its blocks" in placement.reason
    assert placement.bytes(7, 512) == 7 * block_type.bytes_per_row(512)


@pytest.mark.parametrize(
    ("block_type", "name", "bits"),
    [
        (Q4_0, "4-bit affine", 5.0),
        (Q5_1, "5-bit affine", 6.0),
        (Q8_0, "8-bit affine", 9.0),
        (Q4_K, "4-bit affine", 6.0),
        (IQ4_XS, "8-bit affine", 10.0),
        (MXFP4, "mxfp4", 4.25),
    ],
    ids=str,
)
def test_without_a_kernel_the_exact_packing_is_taken(block_type: BlockType, name: str, bits: float) -> None:
    placement = place(block_type, mx.float16, ())
    assert (placement.form, str(placement)) == ("packed", name)
    assert placement.bytes(3, 1024) * 8 == 3 * 1024 * bits
    assert placement.reason.startswith("the same weights")


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_what_has_neither_is_dequantised_and_said_to_be_rounded_where_it_is(dtype: mx.Dtype) -> None:
    placement = place(Q6_K, dtype, ())
    assert (placement.form, str(placement)) == ("dense", str(dtype).removeprefix("mlx.core."))
    assert placement.bytes(3, 1024) == 3 * 1024 * dtype.size
    assert ("rounded" in placement.reason) == (dtype != mx.float32)


def test_the_reason_says_whether_kernels_run_at_all() -> None:
    assert "no kernels run here" in place(IQ4_XS, mx.float16, ()).reason
    assert "no kernel reads IQ4_XS blocks" in place(IQ4_XS, mx.float16, [Q4_K]).reason


@pytest.mark.parametrize("executor", ["metal", "cuda", "emulated"])
def test_executors_with_kernels_read_what_the_kernels_are_written_for(executor: str) -> None:
    assert kernel_types(executor) == KERNEL_BLOCK_TYPES
    assert kernel_types("reference") == ()


@EVERY_TYPE
def test_rows_that_end_within_a_block_have_no_size(block_type: BlockType) -> None:
    with pytest.raises(ValueError, match=str(block_type)):
        place(block_type, mx.float32, [block_type]).bytes(1, block_type.block_weights + 8)
