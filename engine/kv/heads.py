"""Queries, keys and values of a step, from their projections: normed, rotated and in the order of pages."""

from __future__ import annotations

import mlx.core as mx

from engine.host_view import host_view
from engine.layers import host_math
from engine.layers.attention import AttentionLayer
from engine.layers.rope import Angles
from metal.attention_shape import AttentionShape


def rotated_heads(
    layer: AttentionLayer, qkv: mx.array, start: int | mx.array, turns: mx.array | None = None
) -> tuple[mx.array, mx.array, mx.array]:
    """Normed and rotated q (n, heads, tokens, head_dim), k and v (n, kv_heads, tokens, head_dim).

    Args:
        layer: whose norms and rotation.
        qkv: (n, tokens, width) of n sequences.
        start: the position of their first token, or (n,) of each.
        turns: the matrices of `Rope.turns` of all tokens, to rotate by; None: by MLX's own rotation.
    """
    shape = layer.shape
    turned = shape.heads + shape.kv_heads
    heads = qkv.reshape(*qkv.shape[:2], -1, shape.head_dim)
    q, k, v = mx.split(heads, [shape.heads, turned], axis=2)
    if layer.norms is not None and shape.norm_epsilon is not None:
        q = mx.fast.rms_norm(q, layer.norms.query, shape.norm_epsilon)
        k = mx.fast.rms_norm(k, layer.norms.key, shape.norm_epsilon)
    if turns is None:
        return layer.rope(q.swapaxes(1, 2), start), layer.rope(k.swapaxes(1, 2), start), v.swapaxes(1, 2)
    both = heads[:, :, :turned] if layer.norms is None else mx.concatenate([q, k], axis=2)
    both = (both.reshape(-1, turned, shape.head_dim) @ turns).reshape(both.shape)
    q, k = mx.split(both.swapaxes(1, 2), [shape.heads], axis=1)
    return q, k, v.swapaxes(1, 2)


def is_for_host(shape: AttentionShape, tokens: int) -> bool:
    """Whether `heads_on_host` is better for so many tokens of a sequence, where a step may be waited for."""
    return tokens * shape.heads * shape.head_dim >= host_math.MANY


def heads_on_host(
    layer: AttentionLayer, qkv: mx.array, angles: Angles
) -> tuple[mx.array, mx.array, mx.array]:
    """What `rotated_heads` gives for one sequence, by numpy on a CPU; evaluated.

    Args:
        layer: whose norms and rotation.
        qkv: float32 (tokens, width); its memory may be used.
        angles: of its tokens.

    Returns:
        q (heads, tokens, head_dim), k and v (kv_heads, tokens, head_dim).
    """
    shape = layer.shape
    heads = qkv.reshape(len(qkv), -1, shape.head_dim).swapaxes(0, 1)
    q, k, v = map(mx.contiguous, mx.split(heads, [shape.heads, shape.heads + shape.kv_heads]))
    if layer.norms is not None and shape.norm_epsilon is not None:
        q = _normalised(q, layer.norms.query, shape.norm_epsilon)
        k = _normalised(k, layer.norms.key, shape.norm_epsilon)
    mx.eval(q, k, v)
    for each in (q, k):
        host_math.rotate(host_view(each), *angles)
    return q, k, v


def _normalised(heads: mx.array, weight: mx.array, eps: float) -> mx.array:
    rows = host_math.normalised(heads.reshape(-1, heads.shape[-1]), weight, eps)
    return rows.reshape(heads.shape)
