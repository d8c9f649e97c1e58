"""Pages in plain MLX operations, which return new pools: the twins of the page kernels."""

from __future__ import annotations

import mlx.core as mx


def write(pool: mx.array, rows: mx.array, slots: mx.array) -> mx.array:
    """The pool (kv_heads, slots, head_dim) with rows (rows, kv_heads, head_dim) at `slots`, -1 for nowhere.

    `slots` is int32 (at least rows,): what is beyond the rows does not count.
    """
    spare = mx.concatenate([pool, pool[:, :1]], axis=1)  # a last slot, which -1 names
    spare[:, slots[: rows.shape[0]]] = rows.swapaxes(0, 1)
    return spare[:, :-1]


def gather(pool: mx.array, table: mx.array, first: mx.array, tokens: int, page_size: int) -> mx.array:
    """Tokens first[0] … of the sequence with pages `table`, (kv_heads, tokens, head_dim); page -1: zeros."""
    positions = first[0] + mx.arange(tokens)
    pages = table[positions // page_size]
    taken = pool[:, pages * page_size + positions % page_size]
    return mx.where((pages >= 0)[None, :, None], taken, mx.zeros_like(taken))


def copy(pool: mx.array, pair: mx.array, page_size: int) -> mx.array:
    """The pool with page pair[0] also at page pair[1]; int32 (2,)."""
    kv_heads, slots, head_dim = pool.shape
    pages = pool.reshape(kv_heads, slots // page_size, page_size, head_dim)
    copied = pages + 0
    copied[:, pair[1]] = pages[:, pair[0]]
    return copied.reshape(pool.shape)
