"""Matrices in blocks and vectors in float32, in a file, as loading sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.loading.gguf.header import GgufTensor
from engine.loading.gguf.weights import GgufWeights
from metal.block_types import BlockType

Stored = tuple[BlockType | None, NDArray[np.uint8] | NDArray[np.float32]]


def block_weights(
    file: Path, tensors: Mapping[str, Stored], dtype: mx.Dtype, readable: Collection[BlockType] = ()
) -> GgufWeights:
    """Weights of `tensors` by name: blocks (rows, bytes per row) of a type, or plain float32 of None."""
    found: dict[str, GgufTensor] = {}
    with file.open("wb") as out:
        for name, (block_type, data) in tensors.items():
            shape = data.shape
            if block_type is not None:
                shape = (shape[0], block_type.width(shape[1]))
            kind = "F32" if block_type is None else block_type.name
            found[name] = GgufTensor(name, shape, kind, block_type, file, out.tell(), data.nbytes)
            out.write(data.tobytes())
    return GgufWeights(found, dtype, None, readable, lambda _count: None)
