"""Linear and embedding layers, dense or MLX-quantised, built straight from a model's tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import mlx.core as mx

from engine.loading.quantization import QuantizationSpec
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
        self._transposed = weight.T

    def __call__(self, x: mx.array) -> mx.array:
        if self.bias is None:
            return x @ self._transposed
        return mx.addmm(self.bias, x, self._transposed)


class QuantizedTensor:
    """An MLX-quantised matrix (rows, columns): packed uint32 weight, scales and, for affine, biases."""

    def __init__(
        self, weight: mx.array, scales: mx.array, biases: mx.array | None, spec: QuantizationSpec
    ) -> None:
        self.spec = spec
        self.weight = weight
        self.scales = scales
        self.biases = biases

    @classmethod
    def load(cls, weights: Weights, rows: int, columns: int, spec: QuantizationSpec) -> QuantizedTensor:
        """Take `weight`, `scales` and, for affine, `biases`. Raises ModelError for a shape unlike `spec`."""
        weight = weights.packed("weight", (rows, columns * spec.bits // 32), stands_for=rows * columns)
        groups = (rows, columns // spec.group_size)
        scales = weights.scales("scales", groups)
        biases = weights.scales("biases", groups) if spec.mode == "affine" else None
        return cls(weight, scales, biases, spec)

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
        self.tensor = tensor
        self.bias = bias

    def __call__(self, x: mx.array) -> mx.array:
        y = self.tensor.matmul(x)
        return y if self.bias is None else y + self.bias


class JoinedLinear:
    """Layers of the same input whose weights cannot be one array (they are quantised differently)."""

    def __init__(self, parts: Sequence[Linear]) -> None:
        self._parts = tuple(parts)

    def __call__(self, x: mx.array) -> mx.array:
        return mx.concatenate([part(x) for part in self._parts], axis=-1)


class DenseEmbedding:
    """A table (vocab, width)."""

    def __init__(self, table: mx.array) -> None:
        self._table = table
        self.dtype = table.dtype

    def __call__(self, tokens: mx.array) -> mx.array:
        return self._table[tokens]

    def as_linear(self) -> Linear:
        return DenseLinear(self._table, None)


class QuantizedEmbedding:
    """A quantised table (vocab, width)."""

    def __init__(self, tensor: QuantizedTensor, dtype: mx.Dtype) -> None:
        self._tensor = tensor
        self.dtype = dtype

    def __call__(self, tokens: mx.array) -> mx.array:
        return self._tensor.rows(tokens, self.dtype)

    def as_linear(self) -> Linear:
        return QuantizedLinear(self._tensor, None)


def load_linear(weights: Weights, inputs: int, outputs: int, *, bias: bool = False) -> Linear:
    """The linear layer whose tensors lie at `weights`; quantised exactly when it has scales."""
    offset = weights.array("bias", (outputs,)) if bias else None
    if "scales" in weights:
        spec = weights.quantization(inputs)
        return QuantizedLinear(QuantizedTensor.load(weights, outputs, inputs, spec), offset)
    return DenseLinear(weights.array("weight", (outputs, inputs)), offset)


def load_joined(weights: Weights, inputs: int, outputs: Mapping[str, int], *, bias: bool = False) -> Linear:
    """Layers of one input as a single one, whose outputs follow each other in the order of `outputs`.

    Args:
        weights: where the layers lie, under the names in `outputs`.
        inputs: width of their input.
        outputs: width of each layer's output.
        bias: whether each has one.
    """
    parts = [load_linear(weights.at(name), inputs, width, bias=bias) for name, width in outputs.items()]
    dense = [part for part in parts if isinstance(part, DenseLinear)]
    quantized = [part for part in parts if isinstance(part, QuantizedLinear)]
    if len(dense) == len(parts):
        return DenseLinear(
            _stacked([part.weight for part in dense]),
            _stacked([part.bias for part in dense if part.bias is not None]) if bias else None,
        )
    tensors = [part.tensor for part in quantized]
    if len(tensors) < len(parts) or any(tensor.spec != tensors[0].spec for tensor in tensors):
        return JoinedLinear(parts)
    biases = [tensor.biases for tensor in tensors if tensor.biases is not None]
    return QuantizedLinear(
        QuantizedTensor(
            _stacked([tensor.weight for tensor in tensors]),
            _stacked([tensor.scales for tensor in tensors]),
            _stacked(biases) if biases else None,
            tensors[0].spec,
        ),
        _stacked([part.bias for part in quantized if part.bias is not None]) if bias else None,
    )


def _stacked(arrays: Sequence[mx.array]) -> mx.array:
    rows = mx.concatenate(list(arrays))
    mx.eval(rows)
    return rows


def load_embedding(weights: Weights, vocab: int, width: int) -> Embedding:
    """The embedding table whose tensors lie at `weights`; quantised exactly when it has scales."""
    if "scales" in weights:
        spec = weights.quantization(width)
        return QuantizedEmbedding(QuantizedTensor.load(weights, vocab, width, spec), weights.dtype)
    return DenseEmbedding(weights.array("weight", (vocab, width)))
