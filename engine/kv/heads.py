"""Queries, keys and values of a step, from their projections: normed, rotated and in the order of pages."""

from __future__ import annotations

import mlx.core as mx

from engine.cpu.crew import Crew
from engine.cpu.host_view import host_view
from engine.layers import host_math
from engine.layers.attention import AttentionLayer
from engine.layers.host_math import Floats
from engine.layers.rope import Angles
from metal.attention_shape import AttentionShape

_WORTH = 1 << 18
"""Numbers that are worth a thread: one takes a millisecond to norm and rotate them."""


def rotated_heads(
    layer: AttentionLayer, qkv: mx.array, start: int | mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Normed and rotated q (n, heads, tokens, head_dim), k and v (n, kv_heads, tokens, head_dim).

    Args:
        layer: whose norms and rotation.
        qkv: (n, tokens, width) of n sequences.
        start: the position of their first token, or (n,) of each.
    """
    shape = layer.shape
    turned = shape.heads + shape.kv_heads
    heads = qkv.reshape(*qkv.shape[:2], -1, shape.head_dim)
    q, k, v = mx.split(heads, [shape.heads, turned], axis=2)
    if layer.norms is not None and shape.norm_epsilon is not None:
        q = mx.fast.rms_norm(q, layer.norms.query, shape.norm_epsilon)
        k = mx.fast.rms_norm(k, layer.norms.key, shape.norm_epsilon)
    return layer.rope(q.swapaxes(1, 2), start), layer.rope(k.swapaxes(1, 2), start), v.swapaxes(1, 2)


def is_for_host(shape: AttentionShape, tokens: int) -> bool:
    """Whether `heads_on_host` is better for so many tokens of a sequence, where a step may be waited for."""
    return tokens * shape.heads * shape.head_dim >= host_math.MANY


def heads_on_host(
    layer: AttentionLayer, qkv: mx.array, angles: Angles, crew: Crew
) -> tuple[mx.array, mx.array, mx.array]:
    """What `rotated_heads` gives for one sequence, by numpy on a CPU; evaluated.

    Args:
        layer: whose norms and rotation.
        qkv: float32 (tokens, width).
        angles: of its tokens.
        crew: shares the heads.

    Returns:
        q (heads, tokens, head_dim), k and v (kv_heads, tokens, head_dim).
    """
    shape, norms = layer.shape, layer.norms
    counts = (shape.heads, shape.kv_heads, shape.kv_heads)
    results = [mx.zeros((count, len(qkv), shape.head_dim)) for count in counts]
    mx.eval(qkv, *results, *([] if norms is None else [norms.query, norms.key]))
    given = host_view(qkv).reshape(len(qkv), -1, shape.head_dim, copy=False)
    heads = [head for result in results for head in host_view(result)]

    def compute(number: int) -> Floats:
        head = given[:, number]
        if number >= shape.heads + shape.kv_heads:
            return head
        if norms is not None and shape.norm_epsilon is not None:
            scale = host_view(norms.query if number < shape.heads else norms.key)
            head = host_math.normalised_rows(head, scale, shape.norm_epsilon)
        return host_math.rotated(head, *angles)

    def keep(number: int, head: Floats) -> None:
        heads[number][:] = head

    crew.each(sum(counts), compute, keep, most=qkv.size // _WORTH)
    return results[0], results[1], results[2]
