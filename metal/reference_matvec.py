"""Matrix-vector products in plain MLX operations: the twin of matvec.metal and matvec_affine.metal."""

from __future__ import annotations

import mlx.core as mx

from metal.matvec import Activation, Norm
from metal.matvec_weight import Weight


def matvec(
    x: mx.array,
    weight: Weight,
    *,
    norm: Norm | None = None,
    bias: mx.array | None = None,
    activation: Activation | None = None,
    residual: mx.array | None = None,
    out_dtype: mx.Dtype | None = None,
) -> mx.array:
    """f(W · norm(x) + bias) + residual for x (rows, K); see `Matvec`. Any number of rows."""
    normed = x if norm is None else mx.fast.rms_norm(x, norm.weight.astype(x.dtype), norm.epsilon)
    y = weight.multiply(normed)
    if bias is not None:
        y = y + bias.astype(y.dtype)
    if activation is not None:
        gate, up = mx.split(y, 2, axis=-1)
        y = (_silu(gate) if activation == "silu" else _gelu(gate)) * up
    if residual is not None:
        y = y + residual
    return y if out_dtype is None else y.astype(out_dtype)


def _silu(gate: mx.array) -> mx.array:
    return gate * mx.sigmoid(gate)


def _gelu(gate: mx.array) -> mx.array:
    """The tanh form (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""
    return 0.5 * gate * (1 + mx.tanh(0.7978845608 * (gate + 0.044715 * gate * gate * gate)))
