"""The linear parts of a block on a CPU, for steps that may be evaluated in the middle: a prompt's."""

from __future__ import annotations

import mlx.core as mx

from engine.layers import host_math
from engine.layers.linear import Linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import BuiltinOps, Normalise, gated


class WaitingOps(BuiltinOps):
    """Norms and silu are computed by the host where there are enough numbers: see host_math."""

    def project(self, x: mx.array, norm: Normalise, linear: Linear) -> mx.array:
        """See LinearOps."""
        return linear(_normed(x, norm))

    def gated(self, x: mx.array, norm: Normalise, linear: Linear) -> mx.array:
        """See LinearOps."""
        both = linear(_normed(x, norm))
        is_host = both.dtype == mx.float32 and both.size >= 2 * host_math.FEWEST
        return host_math.gated(both) if is_host else gated(both)


def _normed(x: mx.array, norm: Normalise) -> mx.array:
    if isinstance(norm, RMSNorm) and x.dtype == mx.float32 and x.size >= host_math.MANY:
        return host_math.normalised(x, norm.weight, norm.eps)
    return norm(x)
