"""Attention of a chunk at rounded lengths, by MLX's own attention.

MLX's attention on CUDA builds a cuDNN graph for each new shape (its cache is keyed by all shapes and strides:
mlx/backend/cuda/scaled_dot_product_attention.cpp), and a chat's lengths never come twice. Rounded ones do.
"""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx

FEWEST = 64
"""Rounded lengths begin here: fewer rows take a GPU as long."""

_ROWS = 128

_COARSE = 4096
"""Up to here they are powers of two; then three are between two of these, as padding takes time too."""


def rounded(length: int) -> int:
    """The least rounded length that holds `length`: a multiple of FEWEST, and beyond 4,096 of 1,024."""
    power = max(FEWEST, 1 << (length - 1).bit_length())
    step = power if power <= _COARSE else power // 8
    return -(-length // step) * step


def product_rows(tokens: int) -> int:
    """The least rounded number of rows for products of `tokens`: of _ROWS, or fewer where `rounded` has that.

    cuBLAS, too, prepares itself for each new number of rows: 2 ms for each of a layer's products, which take
    0.1 then (H100, MLX 0.32.4, 2026-11-26). These are nearer to each other: each row of padding takes time.
    """
    return min(rounded(tokens), -(-tokens // _ROWS) * _ROWS)


def rounded_lengths(least: int, most: int) -> Iterator[int]:
    """The rounded lengths from `least`, which is one, to `most`."""
    while least <= most:
        yield least
        least = rounded(least + 1)


def padded_mask(tokens: int, seen: int, window: int | None, dtype: mx.Dtype) -> mx.array:
    """What is added to the scores of a sequence's last `tokens` tokens: 0 for what they see, or -inf.

    Args:
        seen: keys up to the last of them, their own among them.
        window: keys that a token sees, its own among them; None for all before it.

    Returns:
        (rounded(tokens), rounded(seen)) of dtype; rows and keys behind the last are padding. A row of padding
        sees what the last token does, so that it has a softmax.
    """
    own = mx.minimum(mx.arange(seen - tokens, seen - tokens + rounded(tokens)), seen - 1)
    return mask_at(own, rounded(seen), window, dtype)


def mask_at(own: mx.array, keys: int, window: int | None, dtype: mx.Dtype) -> mx.array:
    """The same, (rows, keys), of rows whose own keys are those at `own`, int32 (rows,)."""
    own, behind = own[:, None], mx.arange(keys)
    sees = behind <= own if window is None else (behind <= own) & (behind > own - window)
    return mx.where(sees, mx.array(0, dtype), mx.array(-mx.inf, dtype))


def attend_padded(
    q: mx.array, keys: mx.array, values: mx.array, scale: float, mask: mx.array | str
) -> mx.array:
    """softmax(scale · q Kᵀ + mask) V of a sequence's last tokens; (heads, tokens, head_dim) in q's dtype.

    Args:
        q: (heads, tokens, head_dim), rotated.
        keys, values: (kv_heads, rounded(seen), head_dim); those behind the last token are zeros.
        scale: of the scores.
        mask: of `padded_mask` or `mask_at`, or "causal" where the tokens are all there is.
    """
    tokens = q.shape[1]
    rows = rounded(tokens) if isinstance(mask, str) else mask.shape[0]
    if rows > tokens:
        q = mx.pad(q, [(0, 0), (0, rows - tokens), (0, 0)])
    out = mx.fast.scaled_dot_product_attention(q[None], keys[None], values[None], scale=scale, mask=mask)
    return out[0, :, :tokens]
