"""The products of a short chunk and of a large batch: 16 or 32 rows by a dense weight, in one launch each."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import mlx.core as mx

from engine.kernels.choice import KernelChoice
from engine.layers.attention import Projection
from engine.layers.linear import DenseLinear, Linear
from engine.layers.norm import RMSNorm
from metal.attention_shape import AttentionShape
from metal.candidates_pages import page_product
from metal.candidates_parts import name_of
from metal.matmul import Matmul, matmul_cuts, takes_rows
from metal.matmul_pages import MatmulPages, page_cuts
from metal.matvec import Norm
from metal.matvec_weight import DenseWeight
from metal.product import Product, few_rows, takes_few_rows

Role = Literal["project", "gated", "add", "logits"]


class FewRowProducts:
    """Launchers of those that were measured to be faster than MLX's own."""

    def __init__(self, choice: KernelChoice, launches: Counter[str], layers: int) -> None:
        """`layers` of the model, each with weights of its own."""
        self._choice, self._launches, self._layers = choice, launches, layers
        self._matmuls: dict[tuple[Linear, Role, mx.Dtype], Matmul | None] = {}
        self._page_products: dict[Projection, MatmulPages] = {}

    def prepare_pages(self, shape: AttentionShape, projection: Projection) -> None:
        """Decide how a short chunk's projections go to pages, before any do."""
        if (found := self._proven_pages(shape, projection.linear, projection.norm)) is not None:
            self._page_products[projection] = found

    def to_pages(self, x: mx.array, projection: Projection) -> MatmulPages | None:
        """What projects x, and writes pages in the same launch; None where these are two."""
        return self._page_products.get(projection) if takes_rows(x.shape[0]) else None

    def product(self, x: mx.array, role: Role, linear: Linear, norm: RMSNorm | None) -> Matmul | None:
        """What multiplies x, with its norm and what follows; None where MLX does, or a step's kernels."""
        return self.prepare(x.dtype, role, linear, norm) if takes_rows(x.shape[0]) else None

    def prepare(self, dtype: mx.Dtype, role: Role, linear: Linear, norm: RMSNorm | None) -> Matmul | None:
        """The same for rows of `dtype`, decided before any are multiplied."""
        key = (linear, role, dtype)
        if key not in self._matmuls:
            is_dense = isinstance(linear, DenseLinear)
            self._matmuls[key] = self._proven(dtype, role, linear, norm) if is_dense else None
        return self._matmuls[key]

    def _proven(
        self, dtype: mx.Dtype, role: Role, linear: DenseLinear, norm: RMSNorm | None
    ) -> Matmul | None:
        weight, bias = DenseWeight(linear.weight), linear.bias
        product = Product(
            width=weight.width,
            columns=weight.rows // 2 if role == "gated" else weight.rows,
            rows=1,
            dtype=name_of(dtype),
            norm=norm is not None,
            bias=bias is not None,
            residual=role == "add",
            activation="silu" if role == "gated" else None,
            copies=self._layers,
        )
        if not takes_few_rows(product) or not _has_dtype(norm, dtype):
            return None
        # Asked for or not: an emulated one would take minutes.
        faster = self._choice.proven(few_rows(product).spec)
        if faster is None:
            return None
        return Matmul(
            self._choice.executor,
            self._launches,
            weight,
            matmul_cuts(is_paired=product.activation is not None)[faster],
            norm=None if norm is None else Norm(norm.weight, norm.eps),
            bias=bias,
            activation=product.activation,
        )

    def _proven_pages(self, shape: AttentionShape, linear: Linear, norm: RMSNorm) -> MatmulPages | None:
        if not isinstance(linear, DenseLinear) or not _has_dtype(norm, shape.dtype):
            return None
        weight, bias = DenseWeight(linear.weight), linear.bias
        if weight.weight.dtype != shape.dtype:
            return None
        product = page_product(
            weight.width, shape, name_of(shape.dtype), bias=bias is not None, copies=self._layers
        )
        faster = None if product is None else self._choice.proven(product.spec)
        if faster is None:
            return None
        cut = page_cuts()[faster]
        before = Norm(norm.weight, norm.eps)
        executor, launches = self._choice.executor, self._launches
        return MatmulPages(executor, launches, weight, cut, shape, norm=before, bias=bias)


def _has_dtype(norm: RMSNorm | None, dtype: mx.Dtype) -> bool:
    return norm is None or norm.weight.dtype == dtype
