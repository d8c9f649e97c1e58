"""The linear parts of a block as they are computed together: norm, product, and what follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import mlx.core as mx

from engine.layers.linear import Embedding, Linear
from engine.layers.norm import RMSNorm

Normalise = Callable[[mx.array], mx.array]


class _Sliced(Protocol):
    def __getitem__(self, rows: slice, /) -> Any: ...


Rows = TypeVar("Rows", bound=_Sliced)
"""Of tokens, (tokens, width): MLX's, in the host's memory, or still to be computed."""


class BlockOps(Protocol[Rows]):
    """What a block asks for. x and results are rows of tokens, (tokens, width)."""

    def embed(self, ids: mx.array, embedding: Embedding) -> Rows:
        """Rows (ids, width) of uint32 ids (ids,)."""
        ...

    def project(self, x: Rows, norm: RMSNorm, linear: Linear) -> Rows:
        """linear(norm(x))."""
        ...

    def gated(self, x: Rows, norm: RMSNorm, linear: Linear) -> Rows:
        """silu(g) · u, where g and u are the two halves of linear(norm(x))."""
        ...

    def add(self, residual: Rows, x: Rows, linear: Linear) -> Rows:
        """residual + linear(x)."""
        ...


class LinearOps(BlockOps[Rows], Protocol[Rows]):
    """What a model asks for."""

    def logits(self, x: Rows, norm: RMSNorm, linear: Linear) -> mx.array:
        """linear(norm(x)) in float32."""
        ...


class BuiltinOps:
    """MLX's own operations; a norm may be any that computes what the layer's does."""

    def embed(self, ids: mx.array, embedding: Embedding) -> mx.array:
        """See LinearOps."""
        return embedding(ids)

    def project(self, x: mx.array, norm: Normalise, linear: Linear) -> mx.array:
        """See LinearOps."""
        return linear(norm(x))

    def gated(self, x: mx.array, norm: Normalise, linear: Linear) -> mx.array:
        """See LinearOps."""
        return gated(linear(norm(x)))

    def add(self, residual: mx.array, x: mx.array, linear: Linear) -> mx.array:
        """See LinearOps."""
        return residual + linear(x)

    def logits(self, x: mx.array, norm: Normalise, linear: Linear) -> mx.array:
        """See LinearOps."""
        return linear(norm(x)).astype(mx.float32)


def gated(both: mx.array) -> mx.array:
    """silu(g) · u, where g and u are the two halves of each row."""
    gate, up = mx.split(both, 2, axis=-1)
    return (fused_swiglu if mx.default_device() == mx.gpu else swiglu)(gate, up)


def swiglu(gate: mx.array, up: mx.array) -> mx.array:
    """silu(gate) · up of two arrays of one shape (Shazeer 2020, arXiv:2002.05202)."""
    return gate * mx.sigmoid(gate) * up


fused_swiglu = mx.compile(swiglu, shapeless=True)
"""In one launch, for any number of rows. A CPU would need a C++ compiler for it, on the user's machine."""


PICK_OPERATIONS = ("mlx.ArgReduce", "mlx.LogSumExp")
"""What `pick` launches."""


def pick(logits: mx.array) -> tuple[mx.array, mx.array]:
    """The likeliest token of each row of (rows, vocab) logits, the lowest of equals, and its log Σ exp."""
    return mx.argmax(logits, axis=-1), mx.logsumexp(logits, axis=-1)
