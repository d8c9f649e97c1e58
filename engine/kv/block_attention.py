"""Attention of many tokens of one sequence on a CPU, some queries at a time.

MLX multiplies, numpy computes the softmax (engine/layers/host_exp.py). A block of queries meets only the keys
that some of them see, and only one block's scores are in memory.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.host_view import host_view
from engine.layers.host_exp import exponentiate

SCORES = 1 << 21
"""Scores of a block, about: 8 MiB. A fourth and twice as many were no faster."""

MOST_QUERIES, FEWEST_QUERIES = 128, 32
"""Of a block: more would compute more that causality hides, fewer make products slow."""


def attend_in_blocks(
    q: mx.array, keys: mx.array, values: mx.array, scale: float, window: int | None
) -> mx.array:
    """softmax(scale · q Kᵀ) V, where each query sees the keys up to its own, the last `window` of them.

    Args:
        q: float32 (heads, tokens, head_dim), of the last tokens of the sequence.
        keys, values: float32 (kv_heads, n, head_dim), of its last n >= tokens: all that the queries see.
        window: None for all.

    Returns:
        (heads, tokens, head_dim).
    """
    heads, tokens, head_dim = q.shape
    kv_heads, seen, _ = keys.shape
    q = (q * scale).reshape(kv_heads, heads // kv_heads, tokens, head_dim)
    most = max(FEWEST_QUERIES, min(MOST_QUERIES, SCORES // (heads * seen)))
    outs: list[mx.array] = []
    for begin in range(0, tokens, most):
        end = min(begin + most, tokens)
        own = seen - tokens + begin  # the key of the block's first query
        first = 0 if window is None else max(0, own + 1 - window)
        visible = slice(first, seen - tokens + end)
        block = q[:, :, begin:end]
        scores = block.reshape(kv_heads, -1, head_dim) @ keys[:, visible].swapaxes(1, 2)
        mx.eval(scores, outs[-1:])
        host = host_view(scores)
        _hide(host.reshape(heads, end - begin, -1, copy=False), window)
        sums = exponentiate(host.reshape(-1, host.shape[-1], copy=False))
        out = scores @ values[:, visible] / mx.array(sums).reshape(kv_heads, -1, 1)
        outs.append(out.reshape(block.shape))
    return mx.concatenate(outs, axis=2).reshape(heads, tokens, head_dim)


def _hide(scores: NDArray[np.float32], window: int | None) -> None:
    """Make what a query must not see -inf; scores: (heads, queries, keys), the last keys the queries' own."""
    _, queries, keys = scores.shape
    np.copyto(scores[..., keys - queries :], -np.inf, where=~np.tri(queries, dtype=np.bool_))
    if window is not None:  # of the first query's window the block has all keys, or all that there are
        left = np.tri(queries, queries, keys - queries - window, dtype=np.bool_)
        np.copyto(scores[..., :queries], -np.inf, where=left)
