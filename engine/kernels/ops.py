"""A step's linear parts on kernels: norm, product, activation, bias, residual in one launch.

A prompt's many rows are MLX's own; kernels may do their norms, and products with weights in GGUF's blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypedDict

import mlx.core as mx

from engine.kernels.choice import KernelChoice
from engine.kernels.few_row_products import FewRowProducts, Role
from engine.layers.attention import AttentionLayer, Projection
from engine.layers.linear import DenseLinear, Embedding, JoinedLinear, Linear, QuantizedLinear
from engine.layers.matrix import BlockTensor
from engine.layers.norm import RMSNorm
from engine.layers.ops import BuiltinOps, Normalise, gated
from metal.candidates import prompt_norm_spec
from metal.candidates_ends import embed_spec
from metal.candidates_matmul import MATMUL_ROWS, MATMULS, matmul_spec
from metal.candidates_parts import name_of
from metal.embed import Embed
from metal.errors import KernelError
from metal.matmul_pages import MatmulPages
from metal.matvec import Matvec, Norm
from metal.matvec_cut import MAX_ROWS
from metal.matvec_weight import AffineWeight, BlockWeight, DenseWeight, Weight
from metal.product import Product
from metal.rms_norm import RMSNorm as RMSNormKernel
from metal.trial_case import CaseSpec, Value


class _Form(TypedDict):
    """Of a weight: what cases call it."""

    bits: int
    group: int
    block: str


class _BlockLayer:
    """A layer of a weight in blocks, which kernels read: y = x Wᵀ + b for many rows."""

    def __init__(self, matmul: Callable[[mx.array], mx.array], bias: mx.array | None) -> None:
        self._matmul, self._bias = matmul, bias

    def __call__(self, x: mx.array) -> mx.array:
        y = self._matmul(x)
        return y if self._bias is None else y + self._bias


class KernelOps:
    """LinearOps for few rows; many, and what kernels do not take or do slower, go to MLX.

    A product is chosen by its shape at one row, and at eight for two to eight. Parts of a layer that lie in
    different forms are launched one by one. More rows are normalised by a kernel where that was measured
    to be faster than MLX, and so multiplied: 16 or 32 (a short chunk's, a large batch's) by a dense weight,
    and any number by a weight in blocks, of which MLX makes the whole weight first.

    Attributes:
        refused: what no kernel takes, in words, each once.
        unpacking: keys of the ops that make floats of a weight's blocks at each use until a trial.
    """

    def __init__(self, choice: KernelChoice, launches: Counter[str], layers: int) -> None:
        """`layers` of the model, each with weights of its own."""
        self.refused: dict[str, None] = {}
        self.unpacking: dict[str, None] = {}
        self._choice, self._launches, self._layers = choice, launches, layers
        self._builtin = BuiltinOps()
        self._prepared: dict[tuple[Linear, Role, bool], Matvec | None] = {}
        self._embeddings: dict[tuple[Embedding, bool], Embed | None] = {}
        self._norms: dict[tuple[RMSNorm, mx.Dtype], Normalise] = {}
        self._block_layers: dict[tuple[Linear, mx.Dtype, Value], Linear] = {}
        self._few = FewRowProducts(choice, launches, layers)

    def embed(self, ids: mx.array, embedding: Embedding) -> mx.array:
        """See LinearOps."""
        rows = self._embedding(ids, embedding)
        return rows(ids) if rows else self._builtin.embed(ids, embedding)

    def project(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        if isinstance(linear, JoinedLinear):
            return mx.concatenate([self.project(x, norm, part) for part in linear.parts], axis=-1)
        if matvec := self._matvec(x, "project", linear, norm):
            return matvec(x)
        if matmul := self._few.product(x, "project", linear, norm):
            return matmul(x)
        return self._builtin.project(x, self._alone(x, norm), self._many(x, linear))

    def gated(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        if isinstance(linear, JoinedLinear):
            return gated(self.project(x, norm, linear))
        if matvec := self._matvec(x, "gated", linear, norm):
            return matvec(x)
        if matmul := self._few.product(x, "gated", linear, norm):
            return matmul(x)
        return self._builtin.gated(x, self._alone(x, norm), self._many(x, linear))

    def add(self, residual: mx.array, x: mx.array, linear: Linear) -> mx.array:
        """See LinearOps."""
        if matvec := self._matvec(x, "add", linear, None):
            return matvec(x, residual)
        if matmul := self._few.product(x, "add", linear, None):
            return matmul(x, residual)
        return self._builtin.add(residual, x, self._many(x, linear))

    def logits(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        matvec = self._matvec(x, "logits", linear, norm)
        return matvec(x) if matvec else self._builtin.logits(x, self._alone(x, norm), self._many(x, linear))

    def prepare(self, x: mx.array, role: Role, linear: Linear, norm: RMSNorm | None) -> None:
        """Decide how products of rows such as x (rows, width), and of many, are computed, before any is."""
        if isinstance(linear, JoinedLinear):
            for part in linear.parts:
                self.prepare(x, "project", part, norm)
            return
        self._matvec(x, role, linear, norm)
        if norm is not None:
            self._norm(x.dtype, norm)
        if role != "logits":  # which no prompt has many rows of
            self._few.prepare(x.dtype, role, linear, norm)
            for rows in MATMUL_ROWS:
                self._block_layer(rows, x.dtype, linear)

    def prepare_pages(self, layer: AttentionLayer, projection: Projection) -> None:
        """Decide how a short chunk's projections go to pages, before any do."""
        self._few.prepare_pages(layer.shape, projection)

    def to_pages(self, x: mx.array, projection: Projection) -> MatmulPages | None:
        """What projects x, and writes pages in the same launch; None where these are two."""
        return self._few.to_pages(x, projection)

    def prepare_embedding(self, ids: mx.array, embedding: Embedding) -> None:
        """Decide how rows of as many ids are found, before any are."""
        self._embedding(ids, embedding)

    def _embedding(self, ids: mx.array, embedding: Embedding) -> Embed | None:
        if ids.size > MATMUL_ROWS[0]:
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
        rows = MAX_ROWS if ids.size > 1 else 1
        spec = embed_spec(weight.width, rows, name_of(embedding.dtype), **_form(weight))
        if self._choice.kernel(spec) is None:
            self._note_unpacking(weight, spec)
            return None
        return Embed(self._choice.executor, self._launches, weight, embedding.dtype)

    def _alone(self, x: mx.array, norm: RMSNorm) -> Normalise:
        """What normalises x where its product does not."""
        return norm if x.shape[0] <= MAX_ROWS else self._norm(x.dtype, norm)

    def _norm(self, dtype: mx.Dtype, norm: RMSNorm) -> Normalise:
        key = (norm, dtype)
        if key not in self._norms:
            spec = prompt_norm_spec(norm.weight.size, name_of(dtype), norm.eps)
            self._norms[key] = norm
            if self._choice.proven(spec) is not None:
                kernel = RMSNormKernel(self._choice.executor, self._launches, norm.eps)
                self._norms[key] = partial(kernel, weight=norm.weight)
        return self._norms[key]

    def _many(self, x: mx.array, linear: Linear) -> Linear:
        """The layer that computes many rows such as x."""
        return linear if x.shape[0] <= MAX_ROWS else self._block_layer(x.shape[0], x.dtype, linear)

    def _block_layer(self, rows: int, dtype: mx.Dtype, linear: Linear) -> Linear:
        if not isinstance(linear, QuantizedLinear) or not isinstance(linear.tensor, BlockTensor):
            return linear
        weight = BlockWeight(linear.tensor.blocks, linear.tensor.type)
        spec = matmul_spec(weight.type.name, weight.width, weight.rows, rows, name_of(dtype))
        key = (linear, dtype, spec.params["rows"])
        if key not in self._block_layers:
            # Asked for or not: an emulated prompt would take minutes.
            faster, layer = self._choice.proven(spec), linear
            if faster is not None:
                matmul = MATMULS[faster](self._choice.executor, self._launches, weight)
                layer = _BlockLayer(matmul, linear.bias)
            self._block_layers[key] = layer
        return self._block_layers[key]

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
            **_form(weight),
            norm=norm is not None,
            bias=bias is not None,
            residual=role == "add",
            activation="silu" if role == "gated" else None,
            out="float32" if role == "logits" else None,
            copies=1 if role == "logits" else self._layers,
        )
        kernel = self._choice.kernel(product.spec)
        if kernel is None:
            self._note_unpacking(weight, product.spec)
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

    def _note_unpacking(self, weight: Weight, spec: CaseSpec) -> None:
        if isinstance(weight, BlockWeight) and (key := self._choice.untried(spec)) is not None:
            self.unpacking[key] = None


def _form(weight: Weight) -> _Form:
    """How a case names the form of a weight."""
    match weight:
        case AffineWeight():
            return {"bits": weight.bits, "group": weight.group_size, "block": ""}
        case BlockWeight():
            return {"bits": 0, "group": 0, "block": weight.type.name}
        case DenseWeight():
            return {"bits": 0, "group": 0, "block": ""}


def _weight(linear: Linear) -> tuple[Weight, mx.array | None]:
    """Raises KernelError for a layer that the kernels have no form for."""
    if isinstance(linear, DenseLinear):
        return DenseWeight(linear.weight), linear.bias
    if not isinstance(linear, QuantizedLinear):
        raise KernelError("matvec: layers that are quantised differently are not one product")
    tensor = linear.tensor
    if isinstance(tensor, BlockTensor):
        return BlockWeight(tensor.blocks, tensor.type), linear.bias
    spec = tensor.spec
    if spec.mode != "affine" or tensor.biases is None:
        raise KernelError(f"matvec: {spec.mode} weights are not supported; affine ones are")
    return AffineWeight(tensor.weight, tensor.scales, tensor.biases, spec.group_size, spec.bits), linear.bias
