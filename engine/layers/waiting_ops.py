"""The linear parts of a block on a CPU, for steps that may be evaluated in the middle: a prompt's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

import mlx.core as mx

from engine.crew import Crew
from engine.host_view import host_view
from engine.layers import host_math
from engine.layers.host_math import Floats
from engine.layers.linear import DenseLinear, Linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import BuiltinOps, Normalise, gated

WORTH = 1 << 26
"""Multiplications that are worth a piece: a processor takes one and a half milliseconds for them.

Each piece brings what it multiplies into the order in which BLAS reads it: of smaller ones that is a third.
"""

_PIECES = 8
"""For each thread, at most."""

OfRows = Callable[[Floats, slice], Floats]
"""Some columns of what comes of rows."""


class WaitingOps(BuiltinOps):
    """Norms and silu are computed by the host where there are enough numbers: see host_math.

    Beside answers a crew shares products with plain float32 weights, and numpy multiplies. BLAS's own threads
    halve a product: one that has half a processor would be waited for.
    """

    def __init__(self, crew: Crew | None) -> None:
        """`crew`: None where nobody takes processors from BLAS."""
        self._crew = crew

    def project(self, x: mx.array, norm: Normalise, linear: Linear) -> mx.array:
        """See LinearOps."""
        x = _normed(x, norm)
        if self._crew is not None and is_shared(linear, x):
            return _share(self._crew, x, linear, linear.outputs, _Product(linear))
        return linear(x)

    def gated(self, x: mx.array, norm: Normalise, linear: Linear) -> mx.array:
        """See LinearOps."""
        x = _normed(x, norm)
        if self._crew is not None and is_shared(linear, x):
            product, half = _Product(linear), linear.outputs // 2

            def compute(rows: Floats, columns: slice) -> Floats:
                up = slice(half + columns.start, half + columns.stop)
                return host_math.gated_rows(product(rows, columns), product(rows, up))

            return _share(self._crew, x, linear, half, compute)
        both = linear(x)
        is_host = both.dtype == mx.float32 and both.size >= 2 * host_math.FEWEST
        return host_math.gated(both) if is_host else gated(both)

    def add(self, residual: mx.array, x: mx.array, linear: Linear) -> mx.array:
        """See LinearOps."""
        if self._crew is not None and is_shared(linear, x):
            return residual + _share(self._crew, x, linear, linear.outputs, _Product(linear))
        return residual + linear(x)


def is_shared(linear: Linear, x: mx.array) -> TypeGuard[DenseLinear]:
    """Whether the rows of linear(x) are computed by a crew."""
    if not isinstance(linear, DenseLinear) or not linear.weight.dtype == x.dtype == mx.float32:
        return False
    return len(x) * linear.weight.size >= 2 * WORTH


class _Product:
    """linear(x), by numpy."""

    def __init__(self, linear: DenseLinear) -> None:
        self._weight = linear.on_host
        self._bias = None if linear.bias is None else host_view(linear.bias)

    def __call__(self, rows: Floats, columns: slice) -> Floats:
        """Those columns of its rows."""
        out = rows @ self._weight[columns].T
        if self._bias is not None:
            out += self._bias[columns]
        return out


def _share(crew: Crew, x: mx.array, linear: DenseLinear, width: int, compute: OfRows) -> mx.array:
    """What comes of x (n, inputs), (n, width), evaluated.

    A piece has all rows or all columns, whichever are fewer: BLAS brings those into order for each piece.
    """
    count = len(x)
    pieces = min(count * linear.weight.size // WORTH, _PIECES * crew.size)
    is_by_rows = count >= linear.outputs
    length = count if is_by_rows else width
    size = -(-length // pieces)
    parts = [slice(begin, min(begin + size, length)) for begin in range(0, length, size)]
    result = mx.zeros((count, width))
    mx.eval(x, result)
    rows, out = host_view(x), host_view(result)

    def piece(number: int) -> Floats:
        part = parts[number]
        return compute(rows[part], slice(0, width)) if is_by_rows else compute(rows, part)

    def keep(number: int, computed: Floats) -> None:
        out[parts[number] if is_by_rows else (slice(None), parts[number])] = computed

    crew.each(len(parts), piece, keep, most=len(parts))
    return result


def _normed(x: mx.array, norm: Normalise) -> mx.array:
    if isinstance(norm, RMSNorm) and x.dtype == mx.float32 and x.size >= host_math.MANY:
        return host_math.normalised(x, norm.weight, norm.eps)
    return norm(x)
