"""The matrices of linear layers as they lie in memory: dense, packed by MLX, or in a GGUF file's blocks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import mlx.core as mx

from engine.cpu.affine import WHOLE, numbers
from engine.loading.gguf.placement import Placement
from engine.loading.quantization import QuantizationSpec
from engine.loading.weights import Weights
from engine.machine.machine import device_kind
from metal.block_types import BlockType
from metal.dequantize import dequantize, dequantized_product
from metal.pieces import by_pieces, product_by_pieces
from metal.repack import GROUP, repack

_MANY = 32
"""Rows of a product for which it is worth the while to unpack weights by MLX's own, slow, operation."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """An MLX-quantised matrix (rows, columns): packed uint32 weight, scales and, for affine, biases."""

    weight: mx.array
    scales: mx.array
    biases: mx.array | None
    spec: QuantizationSpec

    def matmul(self, x: mx.array) -> mx.array:
        """x Wᵀ for x (tokens, columns), in x's dtype; computed in float32 where the scales are float32."""
        if device_kind() == "CPU" and x.dtype == mx.float32 and x.shape[0] >= self._rows_for_blas:
            packed = [self.weight, self.scales, *([] if self.biases is None else [self.biases])]
            return product_by_pieces(x, packed, x.shape[1], self._numbers)
        product = mx.quantized_matmul(
            x,
            self.weight,
            self.scales,
            self.biases,
            transpose=True,
            group_size=self.spec.group_size,
            bits=self.spec.bits,
            mode=self.spec.mode,
        )
        return product.astype(x.dtype)

    def rows(self, ids: mx.array, dtype: mx.Dtype) -> mx.array:
        """Dequantised rows (ids, columns)."""
        biases = None if self.biases is None else self.biases[ids]
        return self._numbers(self.weight[ids], self.scales[ids], biases).astype(dtype)

    @property
    def _rows_for_blas(self) -> int:
        """Rows from which a CPU's BLAS multiplies weights that are made for it sooner.

        MLX's own product takes a CPU's packed weights row by row, on one processor. One of 2,048 × 5,632 took
        one row 10 ms (4 bits) and 13 (8), two 34 and 27, 256 rows 3.9 and 2.7 s; made before 12 and 8, 19 and
        15 ms, and 0.09 s. Of 3, 5 and 6 bits and of mxfp4 16 rows took 77 to 166, made before 85 to 186 (AMD
        EPYC, MLX 0.32.4, OpenBLAS).
        """
        return {8: 1, 4: 2}.get(self.spec.bits, _MANY) if self.spec.mode == "affine" else _MANY

    def _numbers(self, weight: mx.array, scales: mx.array, biases: mx.array | None = None) -> mx.array:
        """What some packed rows stand for: (rows, columns), in float32 where there are biases."""
        if biases is not None:
            # MLX computes in their dtype: of float16 ones each scale · q would be rounded.
            scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
            if device_kind() == "CPU" and self.spec.bits in WHOLE:
                return numbers(weight, scales, biases, self.spec.bits)
        return mx.dequantize(
            weight, scales, biases, group_size=self.spec.group_size, bits=self.spec.bits, mode=self.spec.mode
        )


@dataclass(frozen=True, slots=True, eq=False)
class BlockTensor:
    """A matrix (rows, columns) in blocks as a GGUF file has them: uint8 (rows, bytes per row).

    Kernels read them; what is here dequantises them, each time.
    """

    blocks: mx.array
    type: BlockType

    def matmul(self, x: mx.array) -> mx.array:
        """x Wᵀ for x (tokens, columns), in x's dtype."""
        return dequantized_product(x, self.blocks, self.type)

    def rows(self, ids: mx.array, dtype: mx.Dtype) -> mx.array:
        """Dequantised rows (ids, columns)."""
        return dequantize(self.blocks[ids], self.type).astype(dtype)


Matrix = mx.array | QuantizedTensor | BlockTensor


def load_matrix(weights: Weights, rows: int, columns: int) -> Matrix:
    """The matrix "weight" at `weights`, placed. Raises ModelError for one that is missing or misshapen."""
    if "scales" in weights:
        return _load_quantized(weights, rows, columns)
    placement = weights.placement("weight")
    if placement is None:
        return weights.array("weight", (rows, columns))
    return _load_blocks(weights, {"weight": rows}, columns, placement)


def load_matrices(weights: Weights, rows: Mapping[str, int], columns: int) -> list[tuple[Matrix, int]]:
    """The matrices "weight" at names under `weights` as few, in order, each with how many it is made of.

    Neighbours that lie in the same form become one, those in the same blocks as they are read.

    Args:
        weights: where the names are.
        rows: of each matrix, by its name.
        columns: of all of them.

    Raises ModelError for one that is missing or misshapen.
    """
    loaded: list[tuple[Matrix, int]] = []
    for placement, names in groupby(rows, lambda name: weights.at(name).placement("weight")):
        if placement is None:
            loaded += [(load_matrix(weights.at(name), rows[name], columns), 1) for name in names]
        else:
            some = {f"{name}.weight": rows[name] for name in names}
            loaded.append((_load_blocks(weights, some, columns, placement), len(some)))
    alike = [list(group) for _, group in groupby(loaded, lambda one: _form(one[0]))]
    return [(_stacked([one for one, _ in group]), sum(count for _, count in group)) for group in alike]


def _load_blocks(weights: Weights, rows: Mapping[str, int], columns: int, placement: Placement) -> Matrix:
    """Matrices of one block format, under each other, placed."""
    blocks = weights.blocks(rows, columns)
    if placement.form == "blocks":
        return BlockTensor(blocks, placement.block_type)
    matrix = placed(blocks, placement)
    weights.ledger.weight_bytes += _bytes(matrix) - blocks.nbytes
    return matrix


def _load_quantized(weights: Weights, rows: int, columns: int) -> QuantizedTensor:
    spec = weights.quantization(columns)
    weight = weights.packed("weight", (rows, columns * spec.bits // 32), stands_for=rows * columns)
    groups = (rows, columns // spec.group_size)
    scales = weights.scales("scales", groups)
    biases = weights.scales("biases", groups) if spec.mode == "affine" else None
    return QuantizedTensor(weight, scales, biases, spec)


def placed(blocks: mx.array, placement: Placement) -> mx.array | QuantizedTensor:
    """Blocks uint8 (rows, bytes per row) in the form, other than blocks, that `placement` says."""
    block_type, packing = placement.block_type, placement.packing
    if packing is not None:
        packed = repack(blocks, block_type)
        spec = QuantizationSpec(GROUP, packing.bits, packing.mode)
        return QuantizedTensor(packed.words, packed.scales, packed.biases, spec)

    def weights(some: mx.array) -> mx.array:
        return dequantize(some, block_type).astype(placement.dtype)

    return by_pieces(blocks, block_type.width(blocks.shape[1]), weights)


def _bytes(matrix: mx.array | QuantizedTensor) -> int:
    if isinstance(matrix, mx.array):
        return matrix.nbytes
    parts = (matrix.weight, matrix.scales, matrix.biases)
    return sum(part.nbytes for part in parts if part is not None)


def _form(matrix: Matrix) -> Hashable:
    match matrix:
        case QuantizedTensor():
            return matrix.spec, matrix.scales.dtype
        case BlockTensor():
            return matrix.type
        case _:
            return matrix.dtype


def _stacked(group: Sequence[Matrix]) -> Matrix:
    """One matrix of those of one form."""
    first = group[0]
    if len(group) == 1:
        return first
    if isinstance(first, QuantizedTensor):
        parts = [one for one in group if isinstance(one, QuantizedTensor)]
        biases = [one.biases for one in parts if one.biases is not None]
        return QuantizedTensor(
            stacked([one.weight for one in parts]),
            stacked([one.scales for one in parts]),
            stacked(biases) if biases else None,
            first.spec,
        )
    if isinstance(first, BlockTensor):
        return BlockTensor(stacked([one.blocks for one in group if isinstance(one, BlockTensor)]), first.type)
    return stacked([one for one in group if isinstance(one, mx.array)])


def stacked(arrays: Sequence[mx.array]) -> mx.array:
    """Their rows after each other, evaluated."""
    rows = mx.concatenate(list(arrays))
    mx.eval(rows)
    return rows
