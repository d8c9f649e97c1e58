"""A step's linear parts on matrix-vector kernels: norm, product, activation, bias, residual in one launch."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import mlx.core as mx

from engine.kernel_choice import KernelChoice
from engine.layers.linear import DenseLinear, Embedding, Linear, QuantizedLinear
from engine.layers.matrix import BlockTensor
from engine.layers.norm import RMSNorm
from engine.layers.ops import BuiltinOps
from metal.candidates_ends import embed_spec
from metal.candidates_matvec import Product
from metal.candidates_parts import name_of
from metal.embed import Embed
from metal.errors import KernelError
from metal.matvec import Matvec, Norm
from metal.matvec_cut import MAX_ROWS
from metal.matvec_weight import AffineWeight, DenseWeight, Weight

Role = Literal["project", "gated", "add", "logits"]


class KernelOps:
    """LinearOps for steps of 1 to 8 rows; more rows, and what kernels do not take or do slower, go to MLX.

    A product is chosen by its shape at one row, and at eight for two to eight.

    Attributes:
        refused: what no kernel takes, in words, each once.
    """

    def __init__(self, choice: KernelChoice, launches: Counter[str], layers: int) -> None:
        """`layers` of the model, each with weights of its own."""
        self.refused: dict[str, None] = {}
        self._choice, self._launches, self._layers = choice, launches, layers
        self._builtin = BuiltinOps()
        self._prepared: dict[tuple[Linear, Role, bool], Matvec | None] = {}
        self._embeddings: dict[tuple[Embedding, bool], Embed | None] = {}

    def embed(self, ids: mx.array, embedding: Embedding) -> mx.array:
        """See LinearOps."""
        rows = self._embedding(ids, embedding)
        return rows(ids) if rows else self._builtin.embed(ids, embedding)

    def project(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        matvec = self._matvec(x, "project", linear, norm)
        return matvec(x) if matvec else self._builtin.project(x, norm, linear)

    def gated(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        matvec = self._matvec(x, "gated", linear, norm)
        return matvec(x) if matvec else self._builtin.gated(x, norm, linear)

    def add(self, residual: mx.array, x: mx.array, linear: Linear) -> mx.array:
        """See LinearOps."""
        matvec = self._matvec(x, "add", linear, None)
        return matvec(x, residual) if matvec else self._builtin.add(residual, x, linear)

    def logits(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        matvec = self._matvec(x, "logits", linear, norm)
        return matvec(x) if matvec else self._builtin.logits(x, norm, linear)

    def prepare(self, x: mx.array, role: Role, linear: Linear, norm: RMSNorm | None) -> None:
        """Decide how products of rows such as x (rows, width) are computed, before any is."""
        self._matvec(x, role, linear, norm)

    def prepare_embedding(self, ids: mx.array, embedding: Embedding) -> None:
        """Decide how rows of as many ids are found, before any are."""
        self._embedding(ids, embedding)

    def _embedding(self, ids: mx.array, embedding: Embedding) -> Embed | None:
        if ids.size > MAX_ROWS:
            return None
        key = (embedding, ids.size > 1)
        if key not in self._embeddings:
            try:
                self._embeddings[key] = self._prepare_embedding(ids, embedding)
            except KernelError as error:
                self.refused[str(error)] = None
                self._embeddings[key] = None
        return self._embeddings[key]

    def _prepare_embedding(self, ids: mx.array, embedding: Embedding) -> Embed | None:
        weight, _ = _weight(embedding.as_linear())
        weight.check()
        bits, group = (weight.bits, weight.group_size) if isinstance(weight, AffineWeight) else (0, 0)
        rows = MAX_ROWS if ids.size > 1 else 1
        if self._choice.kernel(embed_spec(weight.width, rows, name_of(embedding.dtype), bits, group)) is None:
            return None
        return Embed(self._choice.executor, self._launches, weight, embedding.dtype)

    def _matvec(self, x: mx.array, role: Role, linear: Linear, norm: RMSNorm | None) -> Matvec | None:
        rows = x.shape[0]
        if rows > MAX_ROWS:
            return None
        key = (linear, role, rows > 1)
        if key not in self._prepared:
            try:
                self._prepared[key] = self._prepare(x, role, linear, norm)
            except KernelError as error:
                self.refused[str(error)] = None
                self._prepared[key] = None
        return self._prepared[key]

    def _prepare(self, x: mx.array, role: Role, linear: Linear, norm: RMSNorm | None) -> Matvec | None:
        weight, bias = _weight(linear)
        weight.check()
        product = Product(
            width=weight.width,
            columns=weight.rows // 2 if role == "gated" else weight.rows,
            rows=MAX_ROWS if x.shape[0] > 1 else 1,
            dtype=name_of(x.dtype),
            bits=weight.bits if isinstance(weight, AffineWeight) else 0,
            group=weight.group_size if isinstance(weight, AffineWeight) else 0,
            norm=norm is not None,
            bias=bias is not None,
            residual=role == "add",
            activation="silu" if role == "gated" else None,
            out="float32" if role == "logits" else None,
            copies=1 if role == "logits" else self._layers,
        )
        kernel = self._choice.kernel(product.spec)
        if kernel is None:
            return None
        return Matvec(
            self._choice.executor,
            self._launches,
            weight,
            norm=None if norm is None else Norm(norm.weight, norm.eps),
            bias=bias,
            activation=product.activation,
            out_dtype=mx.float32 if role == "logits" else None,
            cut=product.cuts()[kernel],
        )


def _weight(linear: Linear) -> tuple[Weight, mx.array | None]:
    """Raises KernelError for a layer that the kernels have no form for."""
    if isinstance(linear, DenseLinear):
        return DenseWeight(linear.weight), linear.bias
    if isinstance(linear, QuantizedLinear):
        if isinstance(linear.tensor, BlockTensor):
            raise KernelError(f"matvec: {linear.tensor.type} blocks are not supported; affine ones are")
        tensor, spec = linear.tensor, linear.tensor.spec
        if spec.mode != "affine" or tensor.biases is None:
            raise KernelError(f"matvec: {spec.mode} weights are not supported; affine ones are")
        weight = AffineWeight(tensor.weight, tensor.scales, tensor.biases, spec.group_size, spec.bits)
        return weight, linear.bias
    raise KernelError("matvec: layers that are quantised differently are not one product")
