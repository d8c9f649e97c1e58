"""Linear and embedding layers, whatever form their matrices lie in, built straight from a model's tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.cpu.host_view import host_view
from engine.layers.matrix import (
    BlockTensor,
    Matrix,
    QuantizedTensor,
    load_matrices,
    load_matrix,
    stacked,
)
from engine.loading.weights import Weights


class Linear(Protocol):
    """y = x Wᵀ + b for x (tokens, inputs), giving (tokens, outputs)."""

    def __call__(self, x: mx.array) -> mx.array: ...


class Embedding(Protocol):
    """A table (vocab, width): rows by id, or the same table used as the output projection.

    Attributes:
        dtype: of the rows.
    """

    @property
    def dtype(self) -> mx.Dtype: ...

    def __call__(self, tokens: mx.array) -> mx.array:
        """Rows (tokens, width) of int32 ids (tokens,)."""
        ...

    def as_linear(self) -> Linear:
        """The layer that gives logits (tokens, vocab) of x (tokens, width), for tied embeddings."""
        ...


class DenseLinear:
    """A weight (outputs, inputs) and an optional bias (outputs,)."""

    def __init__(self, weight: mx.array, bias: mx.array | None) -> None:
        self.weight = weight
        self.bias = bias
        self.outputs = weight.shape[0]

    @cached_property
    def on_host(self) -> NDArray[np.float32]:
        """The weight in the host's memory, on a CPU."""
        return host_view(self.weight)

    def __call__(self, x: mx.array) -> mx.array:
        if self.bias is None:
            return x @ self.weight.T
        return mx.addmm(self.bias, x, self.weight.T)


class QuantizedLinear:
    """A weight that MLX packs or that lies in a GGUF file's blocks, and an optional bias (outputs,)."""

    def __init__(self, tensor: QuantizedTensor | BlockTensor, bias: mx.array | None) -> None:
        self.tensor = tensor
        self.bias = bias

    def __call__(self, x: mx.array) -> mx.array:
        y = self.tensor.matmul(x)
        return y if self.bias is None else y + self.bias


class JoinedLinear:
    """Layers of the same input, `parts`, whose weights cannot be one array: they lie in different forms."""

    def __init__(self, parts: Sequence[Linear]) -> None:
        self.parts = tuple(parts)

    def __call__(self, x: mx.array) -> mx.array:
        return mx.concatenate([part(x) for part in self.parts], axis=-1)


class DenseEmbedding:
    """A table (vocab, width)."""

    def __init__(self, table: mx.array) -> None:
        self._table = table
        self.dtype = table.dtype

    @cached_property
    def on_host(self) -> NDArray[np.float32]:
        """The table in the host's memory, on a CPU."""
        return host_view(self._table)

    def __call__(self, tokens: mx.array) -> mx.array:
        return self._table[tokens]

    def as_linear(self) -> Linear:
        return DenseLinear(self._table, None)


class QuantizedEmbedding:
    """A table (vocab, width) that MLX packs or that lies in a GGUF file's blocks; rows are of `dtype`."""

    def __init__(self, tensor: QuantizedTensor | BlockTensor, dtype: mx.Dtype) -> None:
        self._tensor = tensor
        self.dtype = dtype

    def __call__(self, tokens: mx.array) -> mx.array:
        return self._tensor.rows(tokens, self.dtype)

    def as_linear(self) -> Linear:
        return QuantizedLinear(self._tensor, None)


def load_linear(weights: Weights, inputs: int, outputs: int, *, bias: bool = False) -> Linear:
    """The linear layer whose tensors lie at `weights`, in the form that these are stored or placed in."""
    matrix = load_matrix(weights, outputs, inputs)
    return _linear(matrix, weights.array("bias", (outputs,)) if bias else None)


def load_joined(weights: Weights, inputs: int, outputs: Mapping[str, int], *, bias: bool = False) -> Linear:
    """Layers of one input as a single one, whose outputs follow each other in the order of `outputs`.

    Args:
        weights: where the layers lie, under the names in `outputs`.
        inputs: width of their input.
        outputs: width of each layer's output.
        bias: whether each has one.
    """
    matrices = load_matrices(weights, outputs, inputs)
    biases = [weights.at(name).array("bias", (width,)) for name, width in outputs.items() if bias]
    parts: list[Linear] = []
    for matrix, count in matrices:
        parts.append(_linear(matrix, stacked(biases[:count]) if bias else None))
        del biases[:count]
    return parts[0] if len(parts) == 1 else JoinedLinear(parts)


def _linear(matrix: Matrix, bias: mx.array | None) -> Linear:
    return DenseLinear(matrix, bias) if isinstance(matrix, mx.array) else QuantizedLinear(matrix, bias)


def load_embedding(weights: Weights, vocab: int, width: int) -> Embedding:
    """The embedding table whose tensors lie at `weights`, in the form that these are stored or placed in."""
    matrix = load_matrix(weights, vocab, width)
    if isinstance(matrix, mx.array):
        return DenseEmbedding(matrix)
    return QuantizedEmbedding(matrix, weights.dtype)
