"""The reference twins: what each kernel computes, in plain MLX operations."""

import mlx.core as mx


def rms_norm(x: mx.array, weight: mx.array, epsilon: float) -> mx.array:
    """weight · x / sqrt(mean(x²) + epsilon) over the last dimension, computed in float32.

    Args:
        x: shape (..., width).
        weight: shape (width,).

    Returns:
        The shape and dtype of `x`.
    """
    wide = x.astype(mx.float32)
    scale = mx.rsqrt(mx.mean(wide * wide, axis=-1, keepdims=True) + epsilon)
    return (wide * scale * weight.astype(mx.float32)).astype(x.dtype)


def add_rms_norm(
    x: mx.array, residual: mx.array, weight: mx.array, epsilon: float
) -> tuple[mx.array, mx.array]:
    """`rms_norm` of x + residual, and that sum, both in the dtype of `x`."""
    total = (x.astype(mx.float32) + residual.astype(mx.float32)).astype(x.dtype)
    return rms_norm(total, weight, epsilon), total
