"""Attention over pages in plain MLX operations: the twin of the decode and prefill kernels."""

from __future__ import annotations

import mlx.core as mx

from metal.attention_shape import AttentionShape, HeadNorms


def rotate(x: mx.array, angles: mx.array) -> mx.array:
    """Turns pairs (i, i + rotary/2) of x (rows, heads, head_dim) by angles (rows, rotary): cosines, sines."""
    rotary = angles.shape[1]
    cosine, sine = (part[:, None] for part in mx.split(angles, 2, axis=1))
    first, second, rest = mx.split(x, [rotary // 2, rotary], axis=-1)
    return mx.concatenate([first * cosine - second * sine, second * cosine + first * sine, rest], axis=-1)


def split_heads(
    qkv: mx.array, angles: mx.array, shape: AttentionShape, norms: HeadNorms | None = None
) -> tuple[mx.array, mx.array, mx.array]:
    """Rotated queries (rows, heads, head_dim), rotated keys and values (rows, kv_heads, head_dim)."""
    q_width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    parts = mx.split(qkv, [q_width, q_width + kv_width], axis=-1)
    q, k, v = (part.reshape(qkv.shape[0], -1, shape.head_dim) for part in parts)
    if norms is not None and shape.norm_epsilon is not None:
        q = mx.fast.rms_norm(q, norms.query, shape.norm_epsilon)
        k = mx.fast.rms_norm(k, norms.key, shape.norm_epsilon)
    return rotate(q, angles).astype(qkv.dtype), rotate(k, angles).astype(qkv.dtype), v


def attend(
    q: mx.array, keys: mx.array, values: mx.array, shape: AttentionShape, sinks: mx.array | None = None
) -> mx.array:
    """Causal attention of the last rows of one sequence.

    Args:
        q: (rows, heads, head_dim), the last `rows` tokens.
        keys, values: (kv_heads, tokens, head_dim), the whole sequence.
        shape: scale, window and softcap.
        sinks: (heads,).

    Returns:
        (rows, heads · head_dim).
    """
    rows, tokens = q.shape[0], keys.shape[1]
    queries = q.swapaxes(0, 1).reshape(shape.kv_heads, shape.group, rows, shape.head_dim)
    scores = (queries * shape.scale) @ keys[:, None].swapaxes(-1, -2)  # (kv_heads, group, rows, tokens)
    if shape.softcap is not None:
        scores = shape.softcap * mx.tanh(scores / shape.softcap)
    position = mx.arange(tokens - rows, tokens)[:, None]
    key = mx.arange(tokens)[None]
    visible = key <= position
    if shape.window is not None:
        visible = visible & (key > position - shape.window)
    scores = mx.where(visible, scores.astype(mx.float32), -mx.inf)
    if sinks is not None:
        extra = mx.broadcast_to(
            sinks.astype(mx.float32).reshape(shape.kv_heads, shape.group, 1, 1), (*scores.shape[:3], 1)
        )
        weights = mx.softmax(mx.concatenate([scores, extra], axis=-1), axis=-1)[..., :-1]
    else:
        weights = mx.softmax(scores, axis=-1)
    out = weights.astype(values.dtype) @ values[:, None]
    return out.reshape(shape.heads, rows, shape.head_dim).swapaxes(0, 1).reshape(rows, -1)
