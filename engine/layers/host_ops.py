"""The linear parts of a block for a few tokens on a CPU: by numpy.

A token is some hundred small operations there. MLX hands each to a thread of its own, and building and
handing over took as long as computing them (docs/measured/decoding.md, "A token on a CPU").
"""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

from engine.cpu.crew import Crew
from engine.cpu.host_view import host_view
from engine.layers import host_math
from engine.layers.host_math import Floats
from engine.layers.linear import DenseEmbedding, DenseLinear, Embedding, Linear
from engine.layers.norm import RMSNorm

FEW = 3
"""Rows that meet one row of weights after the other, in dot products.

For one row OpenBLAS takes 1.2 to 2 times as long, for two and three up to 1.5; four it multiplies as quickly
(docs/measured/decoding.md, "A token on a CPU").
"""


_FEWEST_COLUMNS = 16
"""Of a piece of a product whose factors lie row after row."""

_PIECES = 2
"""For each thread."""


class HostOps:
    """LinearOps in the host's memory. What is not plain float32, as packed weights, MLX multiplies."""

    def __init__(self, crew: Crew | None = None) -> None:
        """`crew`: shares the columns of products; None where the thread that asks has them all."""
        self._crew = crew

    def embed(self, ids: mx.array, embedding: Embedding) -> Floats:
        """See LinearOps."""
        if isinstance(embedding, DenseEmbedding):
            return embedding.on_host[host_view(_there(ids))]
        return host_view(_there(embedding(ids).astype(mx.float32)))

    def project(self, x: Floats, norm: RMSNorm, linear: Linear) -> Floats:
        """See LinearOps."""
        return self._product(normed(x, norm.on_host, norm.eps), linear)

    def gated(self, x: Floats, norm: RMSNorm, linear: Linear) -> Floats:
        """See LinearOps."""
        both = self.project(x, norm, linear)
        half = both.shape[1] // 2
        return host_math.gated_rows(both[:, :half], both[:, half:])

    def add(self, residual: Floats, x: Floats, linear: Linear) -> Floats:
        """See LinearOps."""
        out = self._product(x, linear)
        out += residual
        return out

    def logits(self, x: Floats, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        return mx.array(self.project(x, norm, linear))

    def _product(self, x: Floats, linear: Linear) -> Floats:
        """linear(x), in memory of its own."""
        if not isinstance(linear, DenseLinear):
            return host_view(_there(linear(mx.array(x)))).copy()
        out = times(x, linear.on_host, self._crew)
        if linear.bias is not None:
            out += host_view(linear.bias)
        return out


def normed(x: Floats, weight: Floats, eps: float) -> Floats:
    """w · x / sqrt(mean(x²) + eps) of each row, as RMSNorm has it."""
    if len(x) > 1:
        return host_math.normalised_rows(x, weight, eps)
    row = x[0]
    out = x * weight
    out /= math.sqrt(row.dot(row) / row.size + eps)
    return out


def times(x: Floats, weight: Floats, crew: Crew | None = None) -> Floats:
    """x Wᵀ of x (n, inputs) and W (outputs, inputs); `crew` shares the columns where they are work enough."""
    out = np.empty((len(x), len(weight)), np.float32)
    if len(x) <= FEW:
        return np.vecdot(weight[:, None], x[None], out=out.T).T
    most = out.size * x.shape[1] // host_math.WORTH
    if crew is None or most < 2:
        return _multiply(x, weight, out)
    size = -(-len(weight) // (_PIECES * crew.size))
    columns = [slice(begin, begin + size) for begin in range(0, len(weight), size)]

    def compute(piece: int) -> Floats:
        rows = weight[columns[piece]]
        with np.errstate(over="ignore", invalid="ignore"):  # of a thread of the crew
            return _multiply(x, rows, np.empty((len(x), len(rows)), np.float32))

    def keep(piece: int, found: Floats) -> None:
        out[:, columns[piece]] = found

    crew.each(len(columns), compute, keep, most=most)
    return out


def _multiply(x: Floats, weight: Floats, out: Floats) -> Floats:
    """x Wᵀ, put into `out`, some columns at a time."""
    if len(x) * host_math.FEWEST_COLUMNS <= host_math.TURNED_AT_ONCE:
        size = host_math.TURNED_AT_ONCE // len(x)
        for begin in range(0, len(weight), size):
            np.matmul(x, weight[begin : begin + size].T, out=out[:, begin : begin + size])
        return out
    turned, size = np.ascontiguousarray(x.T), max(_FEWEST_COLUMNS, host_math.AT_ONCE // x.size)
    for begin in range(0, len(weight), size):
        out[:, begin : begin + size] = (weight[begin : begin + size] @ turned).T
    return out


def _there(array: mx.array) -> mx.array:
    mx.eval(array)
    return array
