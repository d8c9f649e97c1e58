"""Linear and embedding layers, dense or MLX-quantised, built straight from a model's tensors."""

from __future__ import annotations

from typing import Protocol

import mlx.core as mx

from engine.loading.quantization import QuantizationSpec
from engine.loading.weights import Weights


class Linear(Protocol):
    """y = x Wᵀ + b for x (tokens, inputs), giving (tokens, outputs)."""

    def __call__(self, x: mx.array) -> mx.array: ...


class Embedding(Protocol):
    """A table (vocab, width): rows by id, or the same table used as the output projection."""

    def __call__(self, tokens: mx.array) -> mx.array:
        """Rows (tokens, width) of int32 ids (tokens,)."""
        ...

    def as_linear(self, x: mx.array) -> mx.array:
        """Logits (tokens, vocab) of x (tokens, width), for tied embeddings."""
        ...


class DenseLinear:
    """A weight (outputs, inputs) and an optional bias (outputs,)."""

    def __init__(self, weight: mx.array, bias: mx.array | None) -> None:
        self._transposed = weight.T
        self._bias = bias

    def __call__(self, x: mx.array) -> mx.array:
        if self._bias is None:
            return x @ self._transposed
        return mx.addmm(self._bias, x, self._transposed)


class QuantizedTensor:
    """An MLX-quantised matrix (rows, columns): packed uint32 weight, scales and, for affine, biases."""

    def __init__(self, weights: Weights, rows: int, columns: int, spec: QuantizationSpec) -> None:
        """Take `weight`, `scales` and `biases`. Raises ModelError when a shape does not fit `spec`."""
        self.spec = spec
        self.weight = weights.packed("weight", (rows, columns * spec.bits // 32), stands_for=rows * columns)
        groups = (rows, columns // spec.group_size)
        self.scales = weights.scales("scales", groups)
        self.biases = weights.scales("biases", groups) if "biases" in weights else None

    def matmul(self, x: mx.array) -> mx.array:
        """x Wᵀ for x (tokens, columns)."""
        return mx.quantized_matmul(
            x,
            self.weight,
            self.scales,
            self.biases,
            transpose=True,
            group_size=self.spec.group_size,
            bits=self.spec.bits,
            mode=self.spec.mode,
        )

    def rows(self, ids: mx.array, dtype: mx.Dtype) -> mx.array:
        """Dequantised rows (ids, columns)."""
        biases = None if self.biases is None else self.biases[ids]
        rows = mx.dequantize(
            self.weight[ids],
            self.scales[ids],
            biases,
            group_size=self.spec.group_size,
            bits=self.spec.bits,
            mode=self.spec.mode,
        )
        return rows.astype(dtype)


class QuantizedLinear:
    """A quantised weight and an optional bias (outputs,)."""

    def __init__(self, tensor: QuantizedTensor, bias: mx.array | None) -> None:
        self._tensor = tensor
        self._bias = bias

    def __call__(self, x: mx.array) -> mx.array:
        y = self._tensor.matmul(x)
        return y if self._bias is None else y + self._bias


class DenseEmbedding:
    """A table (vocab, width)."""

    def __init__(self, table: mx.array) -> None:
        self._table = table

    def __call__(self, tokens: mx.array) -> mx.array:
        return self._table[tokens]

    def as_linear(self, x: mx.array) -> mx.array:
        return x @ self._table.T


class QuantizedEmbedding:
    """A quantised table (vocab, width)."""

    def __init__(self, tensor: QuantizedTensor, dtype: mx.Dtype) -> None:
        self._tensor = tensor
        self._dtype = dtype

    def __call__(self, tokens: mx.array) -> mx.array:
        return self._tensor.rows(tokens, self._dtype)

    def as_linear(self, x: mx.array) -> mx.array:
        return self._tensor.matmul(x)


def load_linear(weights: Weights, inputs: int, outputs: int, *, bias: bool = False) -> Linear:
    """The linear layer whose tensors lie at `weights`; quantised exactly when it has scales."""
    offset = weights.array("bias", (outputs,)) if bias else None
    if "scales" in weights:
        spec = weights.quantization()
        return QuantizedLinear(QuantizedTensor(weights, outputs, inputs, spec), offset)
    return DenseLinear(weights.array("weight", (outputs, inputs)), offset)


def load_embedding(weights: Weights, vocab: int, width: int) -> Embedding:
    """The embedding table whose tensors lie at `weights`; quantised exactly when it has scales."""
    if "scales" in weights:
        spec = weights.quantization()
        return QuantizedEmbedding(QuantizedTensor(weights, vocab, width, spec), weights.dtype)
    return DenseEmbedding(weights.array("weight", (vocab, width)))
