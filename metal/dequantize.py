"""Weights from the blocks of quantised GGUF tensors, in MLX operations, on any device."""

from __future__ import annotations

from typing import cast

import mlx.core as mx

from metal.block_parts import split_blocks
from metal.block_types import MXFP4, BlockType

_PRODUCT_PIECE = 1 << 24  # weights; about 200 MB with what they are computed from
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
    """x Wᵀ, in x's dtype, for x (tokens, width) and blocks uint8 (rows, bytes per row) of the weights W.

    Some rows' weights at a time: MLX computes what does not wait for anything at once, and the weights of a
    whole model would lie in memory together. So they are made to wait, for x and for the rows before.
    """
    step, products = max(1, _PRODUCT_PIECE // block_type.width(blocks.shape[1])), list[mx.array]()
    for first in range(0, blocks.shape[0], step):
        some = blocks if step >= blocks.shape[0] else blocks[first : first + step]
        awaited = products[-1] if products else x
        needed = cast("list[mx.array]", mx.depends([some], [awaited]))
        products.append(x @ dequantize(needed[0], block_type).astype(x.dtype).T)
    return products[0] if len(products) == 1 else mx.concatenate(products, axis=-1)


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
