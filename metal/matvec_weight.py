"""The weights that the matrix-vector kernels take, and what each is compiled as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import mlx.core as mx

from metal.block_types import BY_NAME, Q2_K, Q3_K, Q4_0, Q4_K, Q5_K, Q6_K, Q8_0, BlockType
from metal.dequantize import dequantized_product
from metal.errors import KernelError

DTYPES = (mx.float32, mx.float16, mx.bfloat16)
AFFINE_BITS = (4, 8)
"""The widths of MLX's affine weights that kernels read; see matvec_affine.metal."""
_DENSE_STEP = 8

KERNEL_BLOCK_TYPES = (Q4_0, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K)
"""The block formats that kernels read; see blocks.h."""

_UNITS = {Q2_K: mx.uint32, Q4_K: mx.uint32, Q5_K: mx.uint32}
"""What blocks are loaded by where these are aligned to more than two bytes."""


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """A matrix (rows, width) of floats, row-contiguous; `width` is a multiple of 8."""

    kernel: ClassVar[str] = "matvec"
    lane_width: ClassVar[int] = _DENSE_STEP
    """Elements that a lane takes at once."""

    weight: mx.array

    def check(self) -> None:
        """Raises KernelError for what the kernel does not take."""
        if self.weight.dtype not in DTYPES:
            raise KernelError(f"matvec: a weight in {self.weight.dtype} is not supported; floats are")
        if self.weight.ndim != 2 or self.weight.size == 0 or self.width % _DENSE_STEP:
            raise KernelError(
                f"matvec: a weight {self.weight.shape} is not supported; (rows, width), by 8 in width, is"
            )

    @property
    def rows(self) -> int:
        return self.weight.shape[0]

    @property
    def width(self) -> int:
        return self.weight.shape[1]

    @property
    def arrays(self) -> Mapping[str, mx.array]:
        """The kernel's inputs, by name."""
        return {"weight": self.weight}

    @property
    def types(self) -> Mapping[str, mx.Dtype]:
        """Template values that are dtypes."""
        return {}

    def features(self, dtype: mx.Dtype) -> Mapping[str, int]:
        """What the kernel's text is compiled for, with x of `dtype`."""
        del dtype
        return {}

    def takes(self, dtype: mx.Dtype) -> bool:
        """Whether x may have this dtype."""
        return dtype == self.weight.dtype

    def multiply(self, x: mx.array) -> mx.array:
        """x Wᵀ by MLX's own operation, for x (m, width)."""
        return x @ self.weight.T


@dataclass(frozen=True, slots=True)
class AffineWeight:
    """A matrix (rows, width) in MLX's affine quantisation: scale · q + bias, with one of each for a group.

    Attributes:
        weight: uint32 (rows, width · bits / 32), row-contiguous, the first weights in the lowest bits.
        scales, biases: (rows, width / group_size), floats of one dtype.
        group_size: 32, 64 or 128.
        bits: 4 or 8.
        by_exponent: how the kernel makes floats of the bits; see matvec_affine.metal.
    """

    kernel: ClassVar[str] = "matvec_affine"

    weight: mx.array
    scales: mx.array
    biases: mx.array
    group_size: int
    bits: int
    by_exponent: bool = True

    def check(self) -> None:
        """Raises KernelError for what the kernel does not take."""
        if self.bits not in AFFINE_BITS or self.group_size not in (32, 64, 128):
            raise KernelError(
                f"matvec: {self.bits} bits in groups of {self.group_size} are not supported; "
                "4 and 8 in groups of 32, 64 and 128 are"
            )
        if self.weight.dtype != mx.uint32 or self.weight.ndim != 2 or self.weight.size == 0:
            raise KernelError(
                f"matvec: a packed weight {self.weight.shape} {self.weight.dtype}; "
                "(rows, words) of uint32 is taken"
            )
        if self.scales.dtype != self.biases.dtype:
            raise KernelError(f"matvec: scales in {self.scales.dtype}, biases in {self.biases.dtype}")
        wanted = (self.rows, self.width // self.group_size)
        for name, array in (("scales", self.scales), ("biases", self.biases)):
            if array.shape != wanted or self.width % self.group_size or array.dtype not in DTYPES:
                raise KernelError(
                    f"matvec: {name} {array.shape} {array.dtype} for a weight ({self.rows}, {self.width}) "
                    f"in groups of {self.group_size}"
                )

    @property
    def lane_width(self) -> int:
        """Elements that a lane takes at once."""
        return 128 // self.bits

    @property
    def rows(self) -> int:
        return self.weight.shape[0]

    @property
    def width(self) -> int:
        return self.weight.shape[1] * 32 // self.bits

    @property
    def arrays(self) -> Mapping[str, mx.array]:
        """The kernel's inputs, by name."""
        return {"weight": self.weight, "scales": self.scales, "biases": self.biases}

    @property
    def types(self) -> Mapping[str, mx.Dtype]:
        """Template values that are dtypes."""
        return {"S": self.scales.dtype}

    def features(self, dtype: mx.Dtype) -> Mapping[str, int]:
        """What the kernel's text is compiled for, with x of `dtype`.

        What an exponent adds to a weight costs 5 bits of precision, which 16-bit floats do not have anyway.
        """
        by_exponent = self.by_exponent and dtype != mx.float32
        return {"BITS": self.bits, "GROUP": self.group_size, "EXPONENT": int(by_exponent)}

    def takes(self, dtype: mx.Dtype) -> bool:
        """Whether x may have this dtype."""
        return dtype in DTYPES

    def multiply(self, x: mx.array) -> mx.array:
        """x Wᵀ by MLX's own operation, for x (m, width)."""
        return mx.quantized_matmul(
            x, self.weight, self.scales, self.biases, group_size=self.group_size, bits=self.bits
        )


def lane_weights(block_type: BlockType) -> int:
    """Weights of a block that a lane takes at once: LANE_WEIGHTS of blocks.h."""
    return 16 if block_type == Q8_0 else 32


def block_named(name: str) -> BlockType:
    """The format of that name. Raises KernelError for one that no kernel reads."""
    found = BY_NAME.get(name)
    if found not in KERNEL_BLOCK_TYPES:
        known = ", ".join(map(str, KERNEL_BLOCK_TYPES))
        raise KernelError(f"matvec: {name} blocks are not supported; {known} are")
    return found


@dataclass(frozen=True, slots=True)
class BlockWeight:
    """A matrix (rows, width) in the blocks of a GGUF file, as they lie there.

    Attributes:
        blocks: uint8 (rows, bytes per row), row-contiguous.
        type: of the blocks.
    """

    kernel: ClassVar[str] = "matvec_blocks"

    blocks: mx.array
    type: BlockType

    def check(self) -> None:
        """Raises KernelError for what the kernel does not take."""
        block_named(self.type.name)
        blocks = self.blocks
        if blocks.dtype != mx.uint8 or blocks.ndim != 2 or blocks.size == 0:
            raise KernelError(
                f"matvec: blocks {blocks.shape} {blocks.dtype}; (rows, bytes per row) of uint8 is taken"
            )
        if blocks.shape[1] % self.type.block_bytes:
            raise KernelError(f"matvec: rows of {blocks.shape[1]} bytes are not whole {self.type} blocks")

    @property
    def lane_width(self) -> int:
        """Elements that a lane takes at once."""
        return lane_weights(self.type)

    @property
    def rows(self) -> int:
        return self.blocks.shape[0]

    @property
    def width(self) -> int:
        return self.type.width(self.blocks.shape[1])

    @property
    def arrays(self) -> Mapping[str, mx.array]:
        """The kernel's inputs, by name: the same bytes, in what they are loaded by."""
        return {"weight": self.blocks.view(_UNITS.get(self.type, mx.uint16))}

    @property
    def types(self) -> Mapping[str, mx.Dtype]:
        """Template values that are dtypes."""
        return {}

    def features(self, dtype: mx.Dtype) -> Mapping[str, int]:
        """What the kernel's text is compiled for, with x of `dtype`; see `AffineWeight.features`."""
        return {"BLOCK": self.type.number, "EXPONENT": int(dtype != mx.float32)}

    def takes(self, dtype: mx.Dtype) -> bool:
        """Whether x may have this dtype."""
        return dtype in DTYPES

    def multiply(self, x: mx.array) -> mx.array:
        """x Wᵀ by MLX's own operations, for x (m, width)."""
        return dequantized_product(x, self.blocks, self.type)


Weight = DenseWeight | AffineWeight | BlockWeight
