"""The linear parts of a block for a few tokens on a CPU: by numpy, on the thread that asks.

A token is some hundred small operations there. MLX hands each to a thread of its own, and building and
handing over took as long as computing them (docs/cache-measured.md, "A token on a CPU").
"""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

from engine.host_view import host_view
from engine.layers import host_math
from engine.layers.host_math import Floats
from engine.layers.linear import DenseEmbedding, DenseLinear, Embedding, Linear
from engine.layers.norm import RMSNorm

FEW = 3
"""Rows that meet one row of weights after the other, in dot products.

For one row OpenBLAS takes 1.2 to 2 times as long, for two and three up to 1.5; four it multiplies as quickly
(docs/cache-measured.md, "A token on a CPU").
"""


class HostOps:
    """LinearOps in the host's memory. What is not plain float32, as packed weights, MLX multiplies."""

    def embed(self, ids: mx.array, embedding: Embedding) -> Floats:
        """See LinearOps."""
        if isinstance(embedding, DenseEmbedding):
            return embedding.on_host[host_view(_there(ids))]
        return host_view(_there(embedding(ids).astype(mx.float32)))

    def project(self, x: Floats, norm: RMSNorm, linear: Linear) -> Floats:
        """See LinearOps."""
        return _product(normed(x, norm.on_host, norm.eps), linear)

    def gated(self, x: Floats, norm: RMSNorm, linear: Linear) -> Floats:
        """See LinearOps."""
        both = self.project(x, norm, linear)
        half = both.shape[1] // 2
        return host_math.gated_rows(both[:, :half], both[:, half:])

    def add(self, residual: Floats, x: Floats, linear: Linear) -> Floats:
        """See LinearOps."""
        out = _product(x, linear)
        out += residual
        return out

    def logits(self, x: Floats, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        return mx.array(self.project(x, norm, linear))


def normed(x: Floats, weight: Floats, eps: float) -> Floats:
    """w · x / sqrt(mean(x²) + eps) of each row, as RMSNorm has it."""
    if len(x) > 1:
        return host_math.normalised_rows(x, weight, eps)
    row = x[0]
    out = x * weight
    out /= math.sqrt(row.dot(row) / row.size + eps)
    return out


def _product(x: Floats, linear: Linear) -> Floats:
    """linear(x), in memory of its own."""
    if not isinstance(linear, DenseLinear):
        return host_view(_there(linear(mx.array(x)))).copy()
    out = times(x, linear.on_host)
    if linear.bias is not None:
        out += host_view(linear.bias)
    return out


def times(x: Floats, weight: Floats) -> Floats:
    """x Wᵀ of x (n, inputs) and W (outputs, inputs)."""
    out = np.empty((len(x), len(weight)), np.float32)
    if len(x) <= FEW:
        return np.vecdot(weight[:, None], x[None], out=out.T).T
    size = host_math.AT_ONCE // len(x)
    if size < host_math.FEWEST_COLUMNS:
        return np.matmul(x, weight.T, out=out)
    for begin in range(0, len(weight), size):
        np.matmul(x, weight[begin : begin + size].T, out=out[:, begin : begin + size])
    return out


def _there(array: mx.array) -> mx.array:
    mx.eval(array)
    return array
