"""Random blocks of GGUF's quantised formats: for trials, and for models that are only timed."""

from __future__ import annotations

import mlx.core as mx

from metal.block_types import Q2_K, Q3_K, Q4_0, Q4_K, Q5_K, Q6_K, Q8_0, BlockType
from metal.dequantize import dequantize

_HALVES = {Q4_0: (0,), Q8_0: (0,), Q2_K: (80, 82), Q3_K: (108,), Q4_K: (0, 2), Q5_K: (0, 2), Q6_K: (208,)}
"""Where a block's float16 scales lie; see blocks.h."""

_SAMPLE = 256


def random_blocks(block_type: BlockType, rows: int, width: int, key: mx.array) -> mx.array:
    """Blocks uint8 (rows, bytes per row) of any codes and scales, of weights about 1/sqrt(width) in size.

    Raises ValueError when rows of `width` are no whole number of blocks.
    """
    shape = (rows * block_type.bytes_per_row(width) // block_type.block_bytes, block_type.block_bytes)
    codes_key, scales_key = mx.random.split(key)
    codes = mx.random.randint(0, 256, shape, key=codes_key).astype(mx.uint8)
    ones = mx.ones((min(shape[0], _SAMPLE), 1), mx.float16)
    sample = dequantize(_scaled(codes[:_SAMPLE], block_type, ones), block_type)
    size = mx.sqrt(width * sample.square().mean())
    scales = mx.random.uniform(0.5, 1.5, (shape[0], 1), key=scales_key) / size
    return _scaled(codes, block_type, scales.astype(mx.float16)).reshape(rows, -1)


def _scaled(codes: mx.array, block_type: BlockType, scales: mx.array) -> mx.array:
    """Blocks (blocks, bytes) with every float16 of each block replaced by its own of `scales` (blocks, 1)."""
    raw = scales.view(mx.uint8)
    parts, end = list[mx.array](), 0
    for at in _HALVES[block_type]:
        parts += [codes[:, end:at], raw]
        end = at + 2
    return mx.concatenate([*parts, codes[:, end:]], axis=1)
