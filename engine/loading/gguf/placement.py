"""How a GGUF file's quantised tensors lie in memory here, decided by their block format alone.

Exactness goes first, then memory, then speed: blocks stay as they lie where kernels read them; else MLX's own
packing takes the very same weights where it has one for them; else they are dequantised. What kernels are
measured to be slower at, or fail at, on this machine changes nothing here: blocks that were kept are then
dequantised at each use, which is slow, is said in the model's kernel notes, and needs no second copy.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from metal.block_types import BlockType
from metal.matvec_weight import KERNEL_BLOCK_TYPES
from metal.repack import GROUP, PACKINGS, Packing
from metal.trial_scope import EXECUTOR_NAMES


@dataclass(frozen=True, slots=True)
class Placement:
    """What becomes of the tensors of one block format.

    Attributes:
        block_type: the format.
        form: "blocks" as in the file, "packed" by MLX, or "dense".
        dtype: what the model is computed in, and dense weights are stored in.
        packing: MLX's, where `form` is "packed".
        reason: for people.
    """

    block_type: BlockType
    form: Literal["blocks", "packed", "dense"]
    dtype: mx.Dtype
    packing: Packing | None
    reason: str

    def __str__(self) -> str:
        """What it is called for people: "Q4_K blocks", "4-bit affine", "float16"."""
        if self.form == "blocks":
            return f"{self.block_type} blocks"
        if self.packing is not None:
            return "mxfp4" if self.packing.mode == "mxfp4" else f"{self.packing.bits}-bit affine"
        return _name(self.dtype)

    def bytes(self, rows: int, width: int) -> int:
        """That a matrix takes in memory.

        Raises ValueError when its rows are no whole number of blocks.
        """
        stored = self.block_type.bytes_per_row(width)
        if self.form == "blocks":
            return rows * stored
        if self.packing is not None:
            return rows * self.packing.bytes_per_row(width)
        return rows * width * self.dtype.size


def kernel_types(executor: str) -> tuple[BlockType, ...]:
    """The block formats that kernels of `executor` read; none where it has no kernels."""
    return KERNEL_BLOCK_TYPES if executor in EXECUTOR_NAMES else ()


def place(block_type: BlockType, dtype: mx.Dtype, readable: Collection[BlockType]) -> Placement:
    """The placement of a format's tensors in a model that is computed in `dtype`.

    `readable`: the formats that kernels read; see `kernel_types`.
    """
    if block_type in readable:
        reason = "as in the file: kernels read its blocks"
        return Placement(block_type, "blocks", dtype, None, reason)
    why = f"no kernel reads {block_type} blocks" if readable else "no kernels run here"
    packing = PACKINGS.get(block_type)
    if packing is not None:
        reason = f"the same weights in groups of {GROUP}, {_name(packing.scales)} scales: {why}"
        return Placement(block_type, "packed", dtype, packing, reason)
    rounded = "" if dtype == mx.float32 else ", rounded"
    reason = f"dequantised{rounded}: {why}, and MLX has no packing of the same weights"
    return Placement(block_type, "dense", dtype, None, reason)


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")
