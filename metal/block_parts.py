"""What a block format's bytes hold: codes, scales and minimums, taken apart in MLX operations.

The layouts are those of ggml's ggml-common.h (`block_q4_0` … `block_mxfp4`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mlx.core as mx

from metal import block_types as types
from metal.block_types import BlockType


@dataclass(frozen=True, slots=True)
class BlockParts:
    """Blocks' weights as scale · (code − zero) − minimum, each scale and minimum for a run of neighbours.

    Attributes:
        codes: uint8 (blocks, weights of a block).
        zero: the code that stands for 0 where there is no minimum.
        scales: float32 (blocks, groups).
        mins: the same, or None without minimums.
    """

    codes: mx.array
    zero: int
    scales: mx.array
    mins: mx.array | None = None


_NONLINEAR_4BIT = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
# What the codes of IQ4_NL and IQ4_XS stand for (ggml-common.h, `kvalues_iq4nl`).

_E2M1_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
# What MXFP4's stand for, doubled (OCP Microscaling Formats 1.0, E2M1); ggml has no negative zero.


def split_blocks(blocks: mx.array, block_type: BlockType) -> BlockParts:
    """The parts of blocks uint8 (blocks, bytes of a block). Only those that are evaluated are computed."""
    return _PARTS[block_type](blocks)


def nibbles(packed: mx.array, run: int) -> mx.array:
    """4-bit codes uint8 (blocks, 2 · bytes): of each `run` bytes all low halves, then all high ones."""
    return _fields(packed, run, (0, 4), 0x0F)


def _fields(packed: mx.array, run: int, shifts: tuple[int, ...], mask: int) -> mx.array:
    """Bit fields of each `run` bytes: all of the first shift, then all of the next; (blocks, fields)."""
    by_run = packed.reshape(packed.shape[0], -1, 1, run)
    fields = (by_run >> mx.array(shifts, dtype=mx.uint8)[:, None]) & mask
    return fields.reshape(packed.shape[0], -1)


def _half(blocks: mx.array, at: int) -> mx.array:
    """The float16 at byte `at` of each block, as float32 (blocks, 1)."""
    return blocks[:, at : at + 2].view(mx.float16).astype(mx.float32)


def _fifth_bits(packed: mx.array) -> mx.array:
    """Bits of little-endian words uint8 (blocks, 4), in their order, each as 0 or 16: uint8 (blocks, 32)."""
    bits = (packed[..., None] >> mx.arange(8, dtype=mx.uint8)) & 1
    return (bits << 4).reshape(-1, 32)


def _looked_up(codes: mx.array, values: tuple[int, ...], zero: int) -> mx.array:
    return mx.array([value + zero for value in values], dtype=mx.uint8)[codes]


def _signed(scales: mx.array, zero: int) -> mx.array:
    return scales.astype(mx.float32) - zero


def _q4_0(blocks: mx.array) -> BlockParts:
    return BlockParts(nibbles(blocks[:, 2:], 16), 8, _half(blocks, 0))


def _q4_1(blocks: mx.array) -> BlockParts:
    return BlockParts(nibbles(blocks[:, 4:], 16), 0, _half(blocks, 0), -_half(blocks, 2))


def _q5_0(blocks: mx.array) -> BlockParts:
    return BlockParts(nibbles(blocks[:, 6:], 16) | _fifth_bits(blocks[:, 2:6]), 16, _half(blocks, 0))


def _q5_1(blocks: mx.array) -> BlockParts:
    codes = nibbles(blocks[:, 8:], 16) | _fifth_bits(blocks[:, 4:8])
    return BlockParts(codes, 0, _half(blocks, 0), -_half(blocks, 2))


def _q8_0(blocks: mx.array) -> BlockParts:
    return BlockParts(blocks[:, 2:] ^ 0x80, 128, _half(blocks, 0))  # from two's complement


def _q2_k(blocks: mx.array) -> BlockParts:
    packed, codes = blocks[:, :16], _fields(blocks[:, 16:80], 32, (0, 2, 4, 6), 3)
    return BlockParts(codes, 0, _half(blocks, 80) * (packed & 0x0F), _half(blocks, 82) * (packed >> 4))


def _q3_k(blocks: mx.array) -> BlockParts:
    # Six bits a scale: the low four by nibble of 8 bytes, the high two by 2-bit field of 4 bytes.
    scales = nibbles(blocks[:, 96:104], 8) | (_fields(blocks[:, 104:108], 4, (0, 2, 4, 6), 3) << 4)
    low = _fields(blocks[:, 32:96], 32, (0, 2, 4, 6), 3)
    high = _fields(blocks[:, :32], 32, tuple(range(8)), 1)
    return BlockParts(low | (high << 2), 4, _half(blocks, 108) * _signed(scales, 32))


def _q4_k(blocks: mx.array) -> BlockParts:
    scales, mins = _k_scales(blocks[:, 4:16])
    return BlockParts(nibbles(blocks[:, 16:], 32), 0, _half(blocks, 0) * scales, _half(blocks, 2) * mins)


def _q5_k(blocks: mx.array) -> BlockParts:
    scales, mins = _k_scales(blocks[:, 4:16])
    fifths = _fields(blocks[:, 16:48], 32, tuple(range(8)), 1)  # of group j in bit j
    codes = nibbles(blocks[:, 48:], 32) | (fifths << 4)
    return BlockParts(codes, 0, _half(blocks, 0) * scales, _half(blocks, 2) * mins)


def _k_scales(packed: mx.array) -> tuple[mx.array, mx.array]:
    """Scales and minimums uint8 (blocks, 8), of 6 bits each, from (blocks, 12).

    Bytes 0–3 hold scales 0–3 and bytes 4–7 minimums 0–3 in their low six bits; bytes 8–11 hold the low four
    bits of scales and minimums 4–7, whose high two are the high two of the bytes before.
    """
    scales, mins, low = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    return (
        mx.concatenate([scales & 0x3F, (low & 0x0F) | ((scales >> 2) & 0x30)], axis=1),
        mx.concatenate([mins & 0x3F, (low >> 4) | ((mins >> 2) & 0x30)], axis=1),
    )


def _q6_k(blocks: mx.array) -> BlockParts:
    codes = nibbles(blocks[:, :128], 64) | (_fields(blocks[:, 128:192], 32, (0, 2, 4, 6), 3) << 4)
    return BlockParts(codes, 32, _half(blocks, 208) * blocks[:, 192:208].view(mx.int8))


def _iq4_nl(blocks: mx.array) -> BlockParts:
    codes = _looked_up(nibbles(blocks[:, 2:], 16), _NONLINEAR_4BIT, 128)
    return BlockParts(codes, 128, _half(blocks, 0))


def _iq4_xs(blocks: mx.array) -> BlockParts:
    # Six bits a scale: the low four by nibble, the high two by field of a 16-bit word.
    high = (blocks[:, 2:4, None] >> mx.array((0, 2, 4, 6), dtype=mx.uint8)).reshape(-1, 8) & 3
    scales = nibbles(blocks[:, 4:8], 1) | (high << 4)
    codes = _looked_up(nibbles(blocks[:, 8:], 16), _NONLINEAR_4BIT, 128)
    return BlockParts(codes, 128, _half(blocks, 0) * _signed(scales, 32))


def _mxfp4(blocks: mx.array) -> BlockParts:
    codes = _looked_up(nibbles(blocks[:, 1:], 16), _E2M1_DOUBLED, 12)
    return BlockParts(codes, 12, _halved_power(blocks[:, :1]))


def _halved_power(exponents: mx.array) -> mx.array:
    """2^(e − 128) as float32 of uint8 e: half the scale of E8M0 exponents, as the codes' values are doubled.

    The first two are float32 denormals, so the bits are put together as integers.
    """
    e = exponents.astype(mx.uint32)
    return mx.where(e < 2, mx.array(0x00200000, mx.uint32) << e, (e - 1) << 23).view(mx.float32)


_PARTS: Mapping[BlockType, Callable[[mx.array], BlockParts]] = {
    types.Q4_0: _q4_0,
    types.Q4_1: _q4_1,
    types.Q5_0: _q5_0,
    types.Q5_1: _q5_1,
    types.Q8_0: _q8_0,
    types.Q2_K: _q2_k,
    types.Q3_K: _q3_k,
    types.Q4_K: _q4_k,
    types.Q5_K: _q5_k,
    types.Q6_K: _q6_k,
    types.IQ4_NL: _iq4_nl,
    types.IQ4_XS: _iq4_xs,
    types.MXFP4: _mxfp4,
}
