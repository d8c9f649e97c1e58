"""Attention of many tokens of one sequence on a CPU, some queries at a time.

MLX multiplies, numpy computes the softmax (engine/layers/host_math.py), each on a thread of its own: while
one block's scores become weights the next one's are multiplied. A block of queries meets only the keys that
some of them see, and only four blocks' scores are in memory.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.host_view import host_view
from engine.layers.host_math import exponentiate

SCORES = 1 << 21
"""Scores of a block, about: 8 MiB."""

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
    blocks = [
        _Block(begin, min(begin + most, tokens), seen - tokens, window) for begin in range(0, tokens, most)
    ]

    def score(block: _Block) -> mx.array:
        rows = q[:, :, block.begin : block.end].reshape(kv_heads, -1, head_dim)
        scores = rows @ keys[:, block.visible].swapaxes(1, 2)
        mx.async_eval(scores)
        return scores

    outs: list[mx.array] = []
    following = score(blocks[0])
    for number, block in enumerate(blocks):
        scores = following
        if number + 1 < len(blocks):
            following = score(blocks[number + 1])
        mx.eval(scores)
        host = host_view(scores)
        _hide(host.reshape(heads, block.queries, -1, copy=False), window)
        sums = exponentiate(host.reshape(-1, host.shape[-1], copy=False))
        out = scores @ values[:, block.visible] / mx.array(sums).reshape(kv_heads, -1, 1)
        mx.async_eval(out)
        outs.append(out.reshape(kv_heads, -1, block.queries, head_dim))
    return mx.concatenate(outs, axis=2).reshape(heads, tokens, head_dim)


class _Block:
    """Queries begin … end-1, and the keys that some of them see."""

    def __init__(self, begin: int, end: int, before: int, window: int | None) -> None:
        """`before`: keys before the first query's own."""
        self.begin, self.end, self.queries = begin, end, end - begin
        first = 0 if window is None else max(0, before + begin + 1 - window)
        self.visible = slice(first, before + end)


def _hide(scores: NDArray[np.float32], window: int | None) -> None:
    """Make what a query must not see -inf; scores: (heads, queries, keys), the last keys the queries' own."""
    _, queries, keys = scores.shape
    np.copyto(scores[..., keys - queries :], -np.inf, where=~np.tri(queries, dtype=np.bool_))
    if window is not None:  # of the first query's window the block has all keys, or all that there are
        left = np.tri(queries, queries, keys - queries - window, dtype=np.bool_)
        np.copyto(scores[..., :queries], -np.inf, where=left)
