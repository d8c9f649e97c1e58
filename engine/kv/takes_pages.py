"""Whether pages that come back from SSD reach the device: found out before any are kept there."""

from __future__ import annotations

from itertools import chain

import mlx.core as mx
import numpy as np

from engine.kv.arena import Arena


def takes_pages(head_dim: int, page_size: int, dtype: mx.Dtype, bits: int | None = None) -> bool:
    """Whether the device reads what the host puts into an arena's memory: found out on one page.

    MLX says that an array's view in numpy is its memory; where that were a copy, pages would come back empty.
    """
    arena = Arena(1, 1, head_dim, page_size, dtype, bits)
    arena.reserve(1, limit=1)
    for part in chain.from_iterable(arena.memory([0])(0, 1).values()):
        part[:] = bytes([0x3C]) * len(part)  # a number in every type
    return all((array.view(np.uint8) == 0x3C).all() for array in arena.read([0]).arrays.values())
