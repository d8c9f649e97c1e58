"""Weights from the blocks of quantised GGUF tensors, in MLX operations, on any device.

The layouts are those of ggml's ggml-common.h (`block_q4_0` … `block_mxfp4`), the values those of the `gguf`
package's `quants.py`. Each weight is scale · q, or scale · q − minimum. Of a finite scale every such product
has at most 24 significant bits, so that float32 holds it as it is, and only the subtraction can round, once:
whether a compiler contracts the two into one operation makes no difference to a single bit. The values are
therefore the `gguf` package's own, in a compiled graph too, with one exception: where a device flushes
float32 denormals, MXFP4 weights below 2⁻¹²⁶ are zero. Of infinite scales the results are infinite or NaN
where the package's are; which NaN is not said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx

from metal import block_types as types
from metal.block_types import BlockType

NONLINEAR_4BIT = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""What the 4-bit codes of IQ4_NL and IQ4_XS stand for (ggml-common.h, `kvalues_iq4nl`)."""

E2M1_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""What the 4-bit codes of MXFP4 stand for, doubled (OCP Microscaling Formats 1.0, E2M1); no negative zero."""


def dequantize(blocks: mx.array, block_type: BlockType) -> mx.array:
    """float32 (rows, width) of blocks uint8 (rows, bytes per row).

    Raises ValueError when a row is no whole number of blocks.
    """
    width = block_type.width(blocks.shape[-1])
    weights = _WEIGHTS[block_type](blocks.reshape(-1, block_type.block_bytes))
    return weights.reshape(*blocks.shape[:-1], width)


def halves(blocks: mx.array, at: int) -> mx.array:
    """The float16 at byte `at` of each block (blocks, bytes), as float32 (blocks, 1)."""
    return blocks[:, at : at + 2].view(mx.float16).astype(mx.float32)


def nibbles(packed: mx.array, run: int) -> mx.array:
    """4-bit codes uint8 (blocks, 2 · bytes): of each `run` bytes all low halves, then all high ones."""
    return _fields(packed, run, (0, 4), 0x0F)


def fifth_bits(packed: mx.array) -> mx.array:
    """Bits of little-endian words uint8 (blocks, 4), in their order, each as 0 or 16: uint8 (blocks, 32)."""
    bits = mx.arange(8, dtype=mx.uint8)
    return (((packed[..., None] >> bits) & 1) << 4).reshape(-1, 32)


def k_scales(packed: mx.array) -> tuple[mx.array, mx.array]:
    """Scales and minimums uint8 (blocks, 8), of 6 bits each, from Q4_K's and Q5_K's (blocks, 12).

    Bytes 0–3 hold scales 0–3 and bytes 4–7 minimums 0–3 in their low six bits; bytes 8–11 hold the low four
    bits of scales and minimums 4–7, whose high two are the high two of the bytes before.
    """
    scales, mins, low = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    return (
        mx.concatenate([scales & 0x3F, (low & 0x0F) | ((scales >> 2) & 0x30)], axis=1),
        mx.concatenate([mins & 0x3F, (low >> 4) | ((mins >> 2) & 0x30)], axis=1),
    )


def q5_codes(blocks: mx.array) -> mx.array:
    """Q5_K's 5-bit codes uint8 (blocks, 256): bit j of the high bits is the fifth of group j."""
    return nibbles(blocks[:, 48:], 32) | (_fields(blocks[:, 16:48], 32, tuple(range(8)), 1) << 4)


def iq4_scales(blocks: mx.array) -> mx.array:
    """IQ4_XS's scales int8 (blocks, 8), from −32 to 31: low four bits by nibble, high two from one word."""
    low = nibbles(blocks[:, 4:8], 1)
    high = (blocks[:, 2:4, None] >> mx.array((0, 2, 4, 6), dtype=mx.uint8)).reshape(-1, 8) & 3
    return (low | (high << 4)).astype(mx.int8) - 32


def e8m0_halves(exponents: mx.array) -> mx.array:
    """2^(e − 128) as float32 of uint8 exponents e: half the scale they stand for, as E2M1 is doubled here.

    The first two are float32 denormals, so the bits are put together as integers.
    """
    e = exponents.astype(mx.uint32)
    return mx.where(e < 2, mx.array(0x00200000, mx.uint32) << e, (e - 1) << 23).view(mx.float32)


def _fields(packed: mx.array, run: int, shifts: tuple[int, ...], mask: int) -> mx.array:
    """Bit fields of each `run` bytes: all of the first shift, then all of the next; (blocks, fields)."""
    by_run = packed.reshape(packed.shape[0], -1, 1, run)
    fields = (by_run >> mx.array(shifts, dtype=mx.uint8)[:, None]) & mask
    return fields.reshape(packed.shape[0], -1)


def _grouped(codes: mx.array, scales: mx.array, mins: mx.array | None = None) -> mx.array:
    """codes (blocks, weights) by scales (blocks, groups), less the minimums: float32 (blocks, weights)."""
    groups = scales.shape[-1]
    values = codes.reshape(codes.shape[0], groups, -1).astype(mx.float32) * scales[..., None]
    return (values if mins is None else values - mins[..., None]).reshape(codes.shape)


def _signed(codes: mx.array, zero: int) -> mx.array:
    return codes.astype(mx.int8) - zero


def _looked_up(codes: mx.array, values: tuple[int, ...]) -> mx.array:
    return mx.array(values, dtype=mx.int8)[codes]


def _q4_0(blocks: mx.array) -> mx.array:
    return _grouped(_signed(nibbles(blocks[:, 2:], 16), 8), halves(blocks, 0))


def _q4_1(blocks: mx.array) -> mx.array:
    return _grouped(nibbles(blocks[:, 4:], 16), halves(blocks, 0), -halves(blocks, 2))


def _q5_0(blocks: mx.array) -> mx.array:
    codes = nibbles(blocks[:, 6:], 16) | fifth_bits(blocks[:, 2:6])
    return _grouped(_signed(codes, 16), halves(blocks, 0))


def _q5_1(blocks: mx.array) -> mx.array:
    codes = nibbles(blocks[:, 8:], 16) | fifth_bits(blocks[:, 4:8])
    return _grouped(codes, halves(blocks, 0), -halves(blocks, 2))


def _q8_0(blocks: mx.array) -> mx.array:
    return _grouped(blocks[:, 2:].view(mx.int8), halves(blocks, 0))


def _q2_k(blocks: mx.array) -> mx.array:
    scales, codes = blocks[:, :16], _fields(blocks[:, 16:80], 32, (0, 2, 4, 6), 3)
    return _grouped(codes, halves(blocks, 80) * (scales & 0x0F), halves(blocks, 82) * (scales >> 4))


def _q3_k(blocks: mx.array) -> mx.array:
    # Six bits a scale: the low four by nibble of 8 bytes, the high two by 2-bit field of 4 bytes.
    scales = nibbles(blocks[:, 96:104], 8) | (_fields(blocks[:, 104:108], 4, (0, 2, 4, 6), 3) << 4)
    low = _fields(blocks[:, 32:96], 32, (0, 2, 4, 6), 3)
    high = _fields(blocks[:, :32], 32, tuple(range(8)), 1) << 2  # a set bit takes nothing off
    return _grouped(_signed(low | high, 4), halves(blocks, 108) * _signed(scales, 32))


def _q4_k(blocks: mx.array) -> mx.array:
    scales, mins = k_scales(blocks[:, 4:16])
    return _grouped(nibbles(blocks[:, 16:], 32), halves(blocks, 0) * scales, halves(blocks, 2) * mins)


def _q5_k(blocks: mx.array) -> mx.array:
    scales, mins = k_scales(blocks[:, 4:16])
    return _grouped(q5_codes(blocks), halves(blocks, 0) * scales, halves(blocks, 2) * mins)


def _q6_k(blocks: mx.array) -> mx.array:
    codes = nibbles(blocks[:, :128], 64) | (_fields(blocks[:, 128:192], 32, (0, 2, 4, 6), 3) << 4)
    return _grouped(_signed(codes, 32), halves(blocks, 208) * blocks[:, 192:208].view(mx.int8))


def _iq4_nl(blocks: mx.array) -> mx.array:
    return _grouped(_looked_up(nibbles(blocks[:, 2:], 16), NONLINEAR_4BIT), halves(blocks, 0))


def _iq4_xs(blocks: mx.array) -> mx.array:
    codes = _looked_up(nibbles(blocks[:, 8:], 16), NONLINEAR_4BIT)
    return _grouped(codes, halves(blocks, 0) * iq4_scales(blocks))


def _mxfp4(blocks: mx.array) -> mx.array:
    return _grouped(_looked_up(nibbles(blocks[:, 1:], 16), E2M1_DOUBLED), e8m0_halves(blocks[:, :1]))


_WEIGHTS: Mapping[BlockType, Callable[[mx.array], mx.array]] = {
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
