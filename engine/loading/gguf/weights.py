"""Weights from GGUF files: dense tensors in the compute dtype, quantised ones as their own blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

import mlx.core as mx

from engine.errors import ModelError
from engine.loading.gguf.header import GgufTensor
from engine.loading.gguf.names import gguf_name, is_query_or_key
from engine.loading.gguf.placement import Placement, place
from engine.loading.gguf.tensor_data import Stretch, read_changed, read_rows
from engine.loading.quantization import QuantizationSpec
from engine.loading.weights import LoadLedger
from metal.block_types import BlockType
from metal.dequantize import has_finite_scales

_DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}


class GgufWeights:
    """A GGUF model's tensors by Hugging Face's names and in its order; errors say GGUF's name."""

    def __init__(
        self,
        tensors: Mapping[str, GgufTensor],
        dtype: mx.Dtype,
        interleaved_head: int | None,
        kernel_types: Collection[BlockType],
        on_bytes: Callable[[int], None],
    ) -> None:
        """Opens no file.

        Args:
            tensors: of all parts, by the names they have there.
            dtype: to compute in.
            interleaved_head: rows of a head where query and key rows are interleaved, as in llama files.
            kernel_types: block formats that kernels read here; see engine.loading.gguf.placement.
            on_bytes: hears of each tensor's bytes in its file.
        """
        self.dtype = dtype
        self.ledger = LoadLedger(on_bytes)
        self._kernel_types = kernel_types
        self._tensors = tensors
        self._interleaved_head = interleaved_head
        self._prefix = ""

    def at(self, name: str) -> GgufWeights:
        """The same tensors, seen from the prefix extended by `name`."""
        child = object.__new__(GgufWeights)
        child.dtype, child.ledger, child._tensors = self.dtype, self.ledger, self._tensors
        child._interleaved_head, child._kernel_types = self._interleaved_head, self._kernel_types
        child._prefix = f"{self._prefix}{name}."
        return child

    def __contains__(self, name: str) -> bool:
        return self._name(name) in self._tensors

    def placement(self, name: str) -> Placement | None:
        """What becomes of a tensor's blocks, None for an unquantised one; ModelError if it is missing."""
        block_type = self._tensor(name).block_type
        return None if block_type is None else place(block_type, self.dtype, self._kernel_types)

    def array(self, name: str, shape: tuple[int, ...]) -> mx.array:
        """A dense tensor of `shape`, in the compute dtype."""
        tensor = self._shaped(name, shape)
        if tensor.block_type is not None:
            raise ModelError(
                f"{tensor.file}: {tensor.name} is stored as {tensor.type_name}, and must be F32, F16 or BF16"
            )
        stored, stretch = _DTYPES[tensor.type_name], Stretch.whole(tensor, shape[0], self._head_rows(tensor))
        if stored == self.dtype:
            array = read_rows([stretch]).view(stored).reshape(shape)
            mx.eval(array)
        else:
            array = read_changed(stretch, lambda raw: raw.view(stored).astype(self.dtype)).reshape(shape)
        self.ledger.add(tensor.name, array, array.size, tensor.bytes)
        return array

    def blocks(self, rows: Mapping[str, int], width: int) -> mx.array:
        """The blocks of matrices under each other, as they lie: uint8 (all rows, bytes per row).

        Args:
            rows: of each matrix, by its name; all are of one block format.
            width: of all of them.
        """
        tensors = [self._shaped(name, (count, width)) for name, count in rows.items()]
        for tensor in tensors:
            if tensor.block_type is None or tensor.block_type != tensors[0].block_type:
                raise ModelError(
                    f"{tensor.file}: {tensor.name} is stored as {tensor.type_name}, not in such blocks"
                )
        stretches = [Stretch.whole(one, one.shape[0], self._head_rows(one)) for one in tensors]
        array, at = read_rows(stretches), 0
        for tensor in tensors:
            own = array[at : at + tensor.shape[0]]
            _check_scales(own, tensor)
            self.ledger.add(tensor.name, own, math.prod(tensor.shape), tensor.bytes)
            at += tensor.shape[0]
        return array

    def quantization(self, width: int) -> QuantizationSpec:
        """Raises ModelError: GGUF holds none of MLX's quantised matrices."""
        raise ModelError(f"tensor {self._name('scales')} is not stored as MLX quantises")

    def packed(self, name: str, shape: tuple[int, ...], stands_for: int) -> mx.array:
        """Raises ModelError: GGUF holds none of MLX's quantised matrices."""
        raise ModelError(f"tensor {self._name(name)} is not stored as MLX quantises")

    def scales(self, name: str, shape: tuple[int, ...]) -> mx.array:
        """Raises ModelError: GGUF holds none of MLX's quantised matrices."""
        raise ModelError(f"tensor {self._name(name)} is not stored as MLX quantises")

    def untaken(self) -> list[str]:
        """The file's names of tensors nobody asked for."""
        return [name for name in self._tensors if name not in self.ledger.taken]

    def _name(self, name: str) -> str:
        return gguf_name(f"{self._prefix}{name}")

    def _tensor(self, name: str) -> GgufTensor:
        tensor = self._tensors.get(self._name(name))
        if tensor is None:
            file = next(iter(self._tensors.values())).file
            raise ModelError(f"{file}: tensor {self._name(name)} is missing")
        return tensor

    def _shaped(self, name: str, shape: tuple[int, ...]) -> GgufTensor:
        tensor = self._tensor(name)
        if tensor.shape != shape:
            raise ModelError(
                f"{tensor.file}: tensor {tensor.name} has shape {tensor.shape}; the metadata asks for {shape}"
            )
        return tensor

    def _head_rows(self, tensor: GgufTensor) -> int | None:
        return self._interleaved_head if is_query_or_key(tensor.name) else None


def _check_scales(blocks: mx.array, tensor: GgufTensor) -> None:
    assert tensor.block_type is not None
    if not has_finite_scales(blocks, tensor.block_type):
        raise ModelError(
            f"{tensor.file}: tensor {tensor.name} has {tensor.block_type} scales that are infinite or no "
            "number; download it again, or use another file of this model"
        )
