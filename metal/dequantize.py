"""Weights from the blocks of quantised GGUF tensors, in MLX operations, on any device."""

from __future__ import annotations

import mlx.core as mx

from metal.block_parts import split_blocks
from metal.block_types import MXFP4, BlockType
from metal.pieces import product_by_pieces

_HALF_EXPONENT = 0x7C00  # all bits set: infinite or NaN
_E8M0_NAN = 0xFF


def dequantize(blocks: mx.array, block_type: BlockType) -> mx.array:
    """float32 (rows, width) of blocks uint8 (rows, bytes per row), as the `gguf` package computes them.

    Of finite scales every product of a scale and a code has at most 24 significant bits, so that float32
    holds it as it is, and only the subtraction of a minimum can round, once. Whether a compiler contracts the
    two into one operation changes no bit: the weights are the package's in a compiled graph too. The
    exception: a device that flushes float32 denormals makes MXFP4 weights below 2⁻¹²⁶ zero. Scales that are
    infinite or NaN give infinities and NaNs where the package's do; which NaN is not said.

    Raises ValueError when a row is no whole number of blocks.
    """
    width = block_type.width(blocks.shape[-1])
    parts = split_blocks(blocks.reshape(-1, block_type.block_bytes), block_type)
    codes = parts.codes.astype(mx.float32)
    if parts.zero:
        codes = codes - parts.zero
    weights = codes.reshape(*parts.scales.shape, -1) * parts.scales[..., None]
    if parts.mins is not None:
        weights = weights - parts.mins[..., None]
    return weights.reshape(*blocks.shape[:-1], width)


def dequantized_product(x: mx.array, blocks: mx.array, block_type: BlockType) -> mx.array:
    """x Wᵀ, in x's dtype, for x (tokens, width) and blocks uint8 (rows, bytes per row) of the weights W."""

    def weights(some: mx.array) -> mx.array:
        return dequantize(some, block_type)

    return product_by_pieces(x, [blocks], block_type.width(blocks.shape[1]), weights)


def has_finite_scales(blocks: mx.array, block_type: BlockType) -> bool:
    """Whether no scale or minimum of blocks uint8 (rows, bytes per row) is infinite or NaN.

    An E8M0 exponent of 255 is NaN (OCP Microscaling Formats 1.0), though ggml reads it as 2¹²⁸.
    """
    flat = blocks.reshape(-1, block_type.block_bytes)
    if block_type is MXFP4:
        return not mx.any(flat[:, 0] == _E8M0_NAN).item()
    words = flat.view(mx.uint16)
    exponents = [words[:, at // 2] & _HALF_EXPONENT for at in block_type.halves]
    return not any(mx.any(one == _HALF_EXPONENT).item() for one in exponents)
