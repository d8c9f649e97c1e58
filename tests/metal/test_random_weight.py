"""Random blocks are weights of the size that keeps activations as they are, in every format."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from metal.block_types import BlockType
from metal.matvec_weight import KERNEL_BLOCK_TYPES
from metal.random_weight import random_blocks
from tests.metal.random_blocks import oracle

WIDTH = 1024


@pytest.mark.parametrize("block_type", KERNEL_BLOCK_TYPES, ids=str)
def test_weights_lie_around_zero_and_are_as_large_as_asked(block_type: BlockType) -> None:
    blocks, other = (
        np.asarray(random_blocks(block_type, 300, WIDTH, mx.random.key(seed)), dtype=np.uint8)
        for seed in (3, 4)
    )
    assert blocks.shape == (300, block_type.bytes_per_row(WIDTH))
    weights = oracle(blocks, block_type).astype(np.float64) * WIDTH**0.5
    assert abs(weights.mean()) <= 0.15  # Q4_0 has one code more below zero than above
    assert 0.8 <= weights.std() <= 1.3
    assert (blocks != other).mean() > 0.9
