"""Random blocks of GGUF's quantised types: any codes and packed scales, and the float16 scales asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import gguf
import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from metal import block_types as types
from metal.block_types import BlockType

HALVES: Mapping[BlockType, tuple[int, ...]] = {
    types.Q4_0: (0,),
    types.Q4_1: (0, 2),
    types.Q5_0: (0,),
    types.Q5_1: (0, 2),
    types.Q8_0: (0,),
    types.Q2_K: (80, 82),
    types.Q3_K: (108,),
    types.Q4_K: (0, 2),
    types.Q5_K: (0, 2),
    types.Q6_K: (208,),
    types.IQ4_NL: (0,),
    types.IQ4_XS: (0,),
    types.MXFP4: (),
}
"""Where a block's float16 scales lie, by ggml-common.h."""

EDGES = (0.0, -0.0, 2.0**-24, -(2.0**-24), 1023 * 2.0**-24, -(2.0**-14), 65504.0, -65504.0)
"""Scales at float16's edges: zeros, smallest and greatest denormals, the smallest normal, the greatest."""


def random_blocks(
    block_type: BlockType,
    rows: int,
    width: int,
    rng: np.random.Generator,
    scales: Sequence[float] | None = None,
) -> NDArray[np.uint8]:
    """Blocks (rows, bytes per row) of random bytes whose float16 scales are drawn from `scales`.

    Without `scales` weights come out below about 1 in size, some of them negative scales.
    """
    shape = (rows, width // block_type.block_weights)
    blocks = rng.integers(0, 256, (*shape, block_type.block_bytes), dtype=np.uint8)
    for at in HALVES[block_type]:
        if scales is None:
            drawn = rng.standard_normal(shape) / 2 ** (14 if block_type.block_weights == 256 else 7)
        else:
            drawn = rng.choice(np.array(scales), shape)
        blocks[..., at : at + 2] = drawn.astype(np.float16)[..., None].view(np.uint8)
    if block_type is types.MXFP4:
        low, high = (100, 127) if scales is None else (0, 255)
        blocks[..., 0] = rng.integers(low, high, shape, dtype=np.uint8)
    return blocks.reshape(rows, -1)


def oracle(blocks: NDArray[np.uint8], block_type: BlockType) -> NDArray[np.float32]:
    """Weights (rows, width) as the gguf package computes them."""
    with np.errstate(over="ignore", invalid="ignore"):
        return gguf.quants.dequantize(blocks, GGMLQuantizationType[block_type.name])
