"""Random blocks of GGUF's quantised formats: for trials, and for models that are only timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from metal.block_types import Q2_K, Q3_K, Q4_0, Q4_K, Q5_K, Q6_K, Q8_0, BlockType
from metal.dequantize import dequantize

_HALVES = {Q4_0: (0,), Q8_0: (0,), Q2_K: (80, 82), Q3_K: (108,), Q4_K: (0, 2), Q5_K: (0, 2), Q6_K: (208,)}
"""Where a block's float16 scales lie; see blocks.h."""

_SAMPLE = 256


def random_blocks(block_type: BlockType, rows: int, width: int, key: mx.array) -> mx.array:
    """Blocks uint8 (rows, bytes per row) of any codes: weights around zero, about 1/sqrt(width) in size.

    Raises ValueError when rows of `width` are no whole number of blocks.
    """
    shape = (rows * block_type.bytes_per_row(width) // block_type.block_bytes, block_type.block_bytes)
    codes_key, scales_key = mx.random.split(key)
    codes = mx.random.randint(0, 256, shape, key=codes_key).astype(mx.uint8)
    factors = _centred(codes[:_SAMPLE], block_type)
    sample = _weights(codes[:_SAMPLE], block_type, factors)
    scales = mx.random.uniform(0.5, 1.5, (shape[0], 1), key=scales_key)
    scales = scales / mx.sqrt(width * sample.square().mean())
    return _scaled(codes, block_type, [factor * scales for factor in factors]).reshape(rows, -1)


def _centred(codes: mx.array, block_type: BlockType) -> list[float]:
    """What the float16 scales of a block are to each other, so that weights are zero on average."""
    if len(_HALVES[block_type]) == 1:
        return [1.0]
    first, second = (_weights(codes, block_type, ones).mean().item() for ones in ([1.0, 0.0], [0.0, 1.0]))
    return [1.0, -cast(float, first) / cast(float, second)]


def _weights(codes: mx.array, block_type: BlockType, factors: Sequence[float]) -> mx.array:
    scales = [mx.full((codes.shape[0], 1), factor) for factor in factors]
    return dequantize(_scaled(codes, block_type, scales), block_type)


def _scaled(codes: mx.array, block_type: BlockType, scales: Sequence[mx.array]) -> mx.array:
    """Blocks (blocks, bytes) with the float16 scales of each replaced by its own of `scales` (blocks, 1)."""
    parts, end = list[mx.array](), 0
    for at, halves in zip(_HALVES[block_type], scales, strict=True):
        parts += [codes[:, end:at], halves.astype(mx.float16).view(mx.uint8)]
        end = at + 2
    return mx.concatenate([*parts, codes[:, end:]], axis=1)
