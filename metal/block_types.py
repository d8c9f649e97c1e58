"""The block formats of quantised GGUF tensors that the engine reads: their numbers and sizes.

A row of such a tensor is a run of blocks of equal size, each the quantised values of some neighbouring
weights with their scales. Type numbers and sizes: ggml's ggml.h (`enum ggml_type`) and ggml-common.h
(`block_q4_0` …).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockType:
    """One block format.

    Attributes:
        name: as GGUF files' names and ggml write it ("Q4_K").
        number: its number in a GGUF file's tensor list.
        block_weights: weights that a block stands for.
        block_bytes: bytes of a block.
        halves: the bytes of a block where its float16 scales and minimums begin.
    """

    name: str
    number: int
    block_weights: int
    block_bytes: int
    halves: tuple[int, ...]

    def __str__(self) -> str:
        return self.name

    @property
    def bits(self) -> float:
        """Bits per weight, scales included."""
        return 8 * self.block_bytes / self.block_weights

    def bytes_per_row(self, width: int) -> int:
        """Bytes of a row of `width` weights. Raises ValueError when no whole number of blocks holds it."""
        if width <= 0 or width % self.block_weights:
            raise ValueError(
                f"rows of {width} weights cannot be {self.name}: its blocks hold {self.block_weights} each"
            )
        return width // self.block_weights * self.block_bytes

    def width(self, row_bytes: int) -> int:
        """Weights of a row of `row_bytes` bytes. Raises ValueError when it ends within a block."""
        if row_bytes <= 0 or row_bytes % self.block_bytes:
            raise ValueError(
                f"rows of {row_bytes} bytes cannot be {self.name}: its blocks have {self.block_bytes} each"
            )
        return row_bytes // self.block_bytes * self.block_weights


Q4_0 = BlockType("Q4_0", 2, 32, 18, (0,))
Q4_1 = BlockType("Q4_1", 3, 32, 20, (0, 2))
Q5_0 = BlockType("Q5_0", 6, 32, 22, (0,))
Q5_1 = BlockType("Q5_1", 7, 32, 24, (0, 2))
Q8_0 = BlockType("Q8_0", 8, 32, 34, (0,))
Q2_K = BlockType("Q2_K", 10, 256, 84, (80, 82))
Q3_K = BlockType("Q3_K", 11, 256, 110, (108,))
Q4_K = BlockType("Q4_K", 12, 256, 144, (0, 2))
Q5_K = BlockType("Q5_K", 13, 256, 176, (0, 2))
Q6_K = BlockType("Q6_K", 14, 256, 210, (208,))
IQ4_NL = BlockType("IQ4_NL", 20, 32, 18, (0,))
IQ4_XS = BlockType("IQ4_XS", 23, 256, 136, (0,))
MXFP4 = BlockType("MXFP4", 39, 32, 17, ())

BLOCK_TYPES = (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4)

BY_NUMBER = {block_type.number: block_type for block_type in BLOCK_TYPES}
"""By the number in a GGUF file; other numbers are unquantised types, or quantised ones that are not read."""

BY_NAME = {block_type.name: block_type for block_type in BLOCK_TYPES}
