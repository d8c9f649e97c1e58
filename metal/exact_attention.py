"""Attention in float64 on the host: what the kernels that attend are held against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metal.attention_shape import AttentionShape

Exact = NDArray[np.float64]


def attend(
    q: Exact,
    keys: Exact,
    values: Exact,
    positions: NDArray[np.int64],
    shape: AttentionShape,
    sinks: Exact | None = None,
) -> Exact:
    """Causal attention of some tokens of one sequence.

    Args:
        q: (rows, heads, head_dim).
        keys, values: (tokens, kv_heads, head_dim), the whole sequence.
        positions: of each row in the sequence, from 0.
        shape: scale, window and softcap.
        sinks: (heads,).

    Returns:
        (rows, heads · head_dim).
    """
    rows, tokens, grouped = len(q), len(keys), (shape.kv_heads, shape.group, len(q), -1)
    queries = (shape.scale * q).transpose(1, 0, 2).reshape(shape.kv_heads, shape.group * rows, -1)
    scores = (queries @ keys.transpose(1, 2, 0)).reshape(grouped)  # (kv_heads, group, rows, tokens)
    if shape.softcap is not None:
        scores = shape.softcap * np.tanh(scores / shape.softcap)
    distance = positions[:, None] - np.arange(tokens)
    np.copyto(scores, -np.inf, where=(distance < 0) | (distance >= (shape.window or tokens)))
    top = scores.max(-1, keepdims=True)
    scores -= top
    weights = np.exp(scores, out=scores)
    mass = weights.sum(-1, keepdims=True)
    if sinks is not None:
        mass += np.exp(sinks.reshape(shape.kv_heads, shape.group, 1, 1) - top)
    out = weights.reshape(shape.kv_heads, shape.group * rows, tokens) @ values.transpose(1, 0, 2)
    out = out.reshape(grouped) / mass
    return out.reshape(shape.heads, rows, shape.head_dim).transpose(1, 0, 2).reshape(rows, -1)
