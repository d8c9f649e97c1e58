"""GGUF's blocks in the packings that MLX multiplies by itself, where these hold the very same weights.

MLX's affine packing says scale · q + bias with unsigned q: a block's scale · (code − zero) − minimum becomes
that with −zero · scale or −minimum as bias. Scales stay float16 where the blocks' are, and become float32
where they are a product of two (Q4_K, Q5_K, IQ4_XS); codes of a lookup table become the 8-bit values that
they stand for. In float32 every product scale · q is exact, and the sum is the weight, rounded at most once;
only the sign of a zero may differ. MXFP4 is the same in MLX, in another order.
Groups of 16 (Q2_K, Q3_K, Q6_K) MLX does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from metal import block_types as types
from metal.block_parts import nibbles, split_blocks
from metal.block_types import BlockType
from metal.pieces import by_pieces

GROUP = 32
"""Weights of a group, in every packing here."""

_NEGATIVE_ZERO = 8  # MXFP4's code for −0, which ggml reads as 0


@dataclass(frozen=True, slots=True)
class Packing:
    """How MLX holds a block format's weights: codes of `bits`, a scale to 32, and in affine mode a bias.

    Attributes:
        mode: as MLX names it.
        bits: 4, 5 or 8.
        scales: dtype of scales and biases.
    """

    mode: Literal["affine", "mxfp4"]
    bits: int
    scales: mx.Dtype

    def bytes_per_row(self, width: int) -> int:
        """Bytes of a row of `width` weights."""
        per_group = self.scales.size * (2 if self.mode == "affine" else 1)
        return width * self.bits // 8 + width // GROUP * per_group


PACKINGS: Mapping[BlockType, Packing] = {
    types.Q4_0: Packing("affine", 4, mx.float16),
    types.Q4_1: Packing("affine", 4, mx.float16),
    types.Q5_0: Packing("affine", 5, mx.float16),
    types.Q5_1: Packing("affine", 5, mx.float16),
    types.Q8_0: Packing("affine", 8, mx.float16),
    types.Q4_K: Packing("affine", 4, mx.float32),
    types.Q5_K: Packing("affine", 5, mx.float32),
    types.IQ4_NL: Packing("affine", 8, mx.float16),
    types.IQ4_XS: Packing("affine", 8, mx.float32),
    types.MXFP4: Packing("mxfp4", 4, mx.uint8),
}
"""The block formats that have an exact packing."""


@dataclass(frozen=True, slots=True)
class Repacked:
    """A matrix (rows, width) as MLX packs it: words uint32, scales and, in affine mode, biases."""

    words: mx.array
    scales: mx.array
    biases: mx.array | None


def repack(blocks: mx.array, block_type: BlockType) -> Repacked:
    """The weights of blocks uint8 (rows, bytes per row), of finite scales, in their type's packing.

    Where a bias is beyond float16, as of weights near its end, scales and biases are float32 after all.
    Raises KeyError for a type without a packing, and ValueError when a row is no whole number of blocks.
    """
    packing, width = PACKINGS[block_type], block_type.width(blocks.shape[1])

    def words(some: mx.array) -> mx.array:
        codes = _codes(some.reshape(-1, block_type.block_bytes), block_type).reshape(-1, width)
        return _packed(codes, packing.bits)

    if packing.mode == "mxfp4":
        exponents = mx.contiguous(blocks[:, :: block_type.block_bytes])
        mx.eval(exponents)
        return Repacked(by_pieces(blocks, width, words), exponents, None)

    def scales(some: mx.array) -> mx.array:
        return _scales(some.reshape(-1, block_type.block_bytes), block_type).reshape(some.shape[0], -1)

    def biases(some: mx.array) -> mx.array:
        return _biases(some.reshape(-1, block_type.block_bytes), block_type).reshape(some.shape[0], -1)

    parts = [by_pieces(blocks, width, part) for part in (scales, biases)]
    fit = bool(mx.all(mx.abs(parts[1]) <= mx.finfo(mx.float16).max).item())
    parts = [part.astype(packing.scales if fit else mx.float32) for part in parts]
    mx.eval(parts)
    return Repacked(by_pieces(blocks, width, words), *parts)


def _codes(blocks: mx.array, block_type: BlockType) -> mx.array:
    if block_type is types.MXFP4:
        codes = nibbles(blocks[:, 1:], 16)
        return mx.where(codes == _NEGATIVE_ZERO, mx.array(0, mx.uint8), codes)
    return split_blocks(blocks, block_type).codes


def _scales(blocks: mx.array, block_type: BlockType) -> mx.array:
    return split_blocks(blocks, block_type).scales


def _biases(blocks: mx.array, block_type: BlockType) -> mx.array:
    parts = split_blocks(blocks, block_type)
    return parts.scales * -parts.zero if parts.mins is None else -parts.mins


def _packed(codes: mx.array, bits: int) -> mx.array:
    """Words uint32 (rows, width · bits / 32) of codes uint8 (rows, width), the first in the lowest bits."""
    if bits == 8:
        packed = codes
    elif bits == 4:
        packed = codes[:, 0::2] | (codes[:, 1::2] << 4)
    else:
        packed = _packed_fives(codes)
    return mx.contiguous(packed).view(mx.uint32)


def _packed_fives(codes: mx.array) -> mx.array:
    """Eight codes of 5 bits in five bytes."""
    a, b, c, d, e, f, g, h = (codes[:, at::8] for at in range(8))
    first, second = a | b << 5, b >> 3 | c << 2 | d << 7
    third, fourth, fifth = d >> 1 | e << 4, e >> 4 | f << 1 | g << 6, g >> 2 | h << 3
    return mx.stack([first, second, third, fourth, fifth], axis=-1).reshape(codes.shape[0], -1)
