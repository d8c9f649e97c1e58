"""Attention of a chunk as two matrix products and a softmax, in MLX's own operations.

MLX's attention on CUDA builds a cuDNN graph for each new shape (its cache is keyed by all shapes and strides:
mlx/backend/cuda/scaled_dot_product_attention.cpp), and a chat's lengths never come twice. Products take any
length at once.
"""

from __future__ import annotations

import mlx.core as mx

_MOST_BYTES = 1 << 28
"""Of the scores that are there at a time."""


def attend_by_products(
    q: mx.array, keys: mx.array, values: mx.array, scale: float, window: int | None = None
) -> mx.array:
    """softmax(scale · q Kᵀ) V of the last tokens of a sequence; (heads, tokens, head_dim) in q's dtype.

    Scores are float32: products of half-precision numbers are exact in TF32. They are made in bands of
    tokens, each on the keys that its last token sees.

    Args:
        q: (heads, tokens, head_dim), rotated queries of the sequence's last tokens.
        keys, values: (kv_heads, seen, head_dim), the last of them the tokens' own.
        scale: of the scores.
        window: keys that a token sees, its own among them; None for all before it.
    """
    heads, tokens, width = q.shape
    kv_heads, seen, _ = keys.shape
    band = max(1, _MOST_BYTES // (heads * seen * 4))
    wide = keys.astype(mx.float32).swapaxes(1, 2)
    outs: list[mx.array] = []
    for begin in range(0, tokens, band):
        end = min(begin + band, tokens)
        place = seen - tokens  # of the first token
        visible = place + end
        rows = (q[:, begin:end].astype(mx.float32) * scale).reshape(kv_heads, -1, width)
        scores = (rows @ wide[..., :visible]).reshape(kv_heads, -1, end - begin, visible)
        own, all_keys = mx.arange(place + begin, visible)[:, None], mx.arange(visible)
        sees = all_keys <= own if window is None else (all_keys <= own) & (all_keys > own - window)
        weights = mx.softmax(mx.where(sees, scores, -mx.inf), axis=-1).astype(values.dtype)
        out = weights.reshape(kv_heads, -1, visible) @ values[:, :visible]
        outs.append(out.reshape(heads, end - begin, width))
    return outs[0] if len(outs) == 1 else mx.concatenate(outs, axis=1)
