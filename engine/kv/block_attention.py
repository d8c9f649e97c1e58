"""Attention of many tokens of one sequence on a CPU, a piece at a time: queries of heads that share keys.

Numpy computes it where the numbers lie (engine/layers/host_math.py). A piece meets only the keys that some of
its queries see, and has a megabyte of scores in memory however many these are.
"""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np

from engine.crew import Crew
from engine.host_view import host_view
from engine.layers.host_math import Floats

ROWS = 512
"""Of a piece: queries of heads that share keys. More would compute more that causality hides, and be few."""

SCORES = 1 << 18
"""Of a piece, in memory at a time: a megabyte, which stays in the processor's second cache.

Of 2,048 queries of 4 heads behind 8,192 tokens, 2 of keys, by one thread with ROWS and 512 keys: 308 ms; 64
queries of all heads and all keys at a time 357, 128 of one 336; 256 and 1,024 keys 322 and 320 (AMD EPYC with
AVX-512, in turns).
"""

FEWEST_QUERIES = 32
"""Of a piece: fewer make products slow."""

_PIECES = 8
"""For each thread, where there are as many."""

_WORTH = 1 << 24
"""Multiplications that are worth a piece, or a thread: they take a third of a millisecond."""

_LOWEST = np.finfo(np.float32).min
"""Below all scores that are seen: what is hidden, -inf, comes to nothing beside it."""


def attend_in_blocks(
    q: mx.array, keys: mx.array, values: mx.array, scale: float, window: int | None, crew: Crew
) -> mx.array:
    """softmax(scale · q Kᵀ) V, where each query sees the keys up to its own, the last `window` of them.

    Args:
        q: float32 (heads, tokens, head_dim), of the last tokens of the sequence.
        keys, values: float32 (kv_heads, n, head_dim), of its last n >= tokens: all that the queries see.
        window: None for all.
        crew: shares the queries.

    Returns:
        (tokens, heads · head_dim), evaluated.
    """
    heads, tokens, head_dim = q.shape
    kv_heads, seen, _ = keys.shape
    group = heads // kv_heads
    result = mx.zeros((tokens, heads * head_dim))
    q = q.reshape(kv_heads, group, tokens, head_dim) * scale
    mx.eval(q, keys, values, result)
    queries, key_rows, value_rows = host_view(q), host_view(keys), host_view(values)
    outs = host_view(result).reshape(tokens, kv_heads, group, head_dim, copy=False)
    query = 2 * group * seen * head_dim
    most = min(max(-(-tokens * kv_heads // (_PIECES * crew.size)), _WORTH // query), ROWS // group)
    blocks = -(-tokens // max(FEWEST_QUERIES, most))
    size = -(-tokens // blocks)

    def part(piece: int) -> tuple[int, slice]:
        block, head = divmod(piece, kv_heads)
        return head, slice(block * size, min((block + 1) * size, tokens))

    def attend(piece: int) -> Floats:
        head, rows = part(piece)
        end = seen - tokens + rows.stop
        own = queries[head, :, rows]
        first = 0 if window is None else max(0, end - own.shape[1] + 1 - window)
        return _attend(own, key_rows[head, first:end], value_rows[head, first:end], window, crew.give_way)

    def keep(piece: int, out: Floats) -> None:
        head, rows = part(piece)
        outs[rows, head] = out.swapaxes(0, 1)

    crew.each(blocks * kv_heads, attend, keep, most=tokens * kv_heads * query // _WORTH)
    return result


def _attend(
    q: Floats, keys: Floats, values: Floats, window: int | None, give_way: Callable[[], None]
) -> Floats:
    """As `attend_in_blocks`, of queries (group, n, head_dim), the last n of m keys (m, head_dim).

    Keys are met some at a time, `give_way` is called between, and exponentials are of scores less the largest
    so far (Milakov & Gimelshein 2018, arXiv:1805.02867).
    """
    group, count, head_dim = q.shape
    rows = q.reshape(group * count, head_dim)
    size = min(SCORES // len(rows), len(keys))
    ones = np.ones((size, 1), np.float32)  # BLAS adds rows up three times as fast as numpy does
    highest = np.full((len(rows), 1), _LOWEST)
    sums, out = np.zeros_like(highest), np.zeros_like(rows)
    with np.errstate(invalid="ignore"):  # a request ends where its logits are found not to be finite
        for begin in range(0, len(keys), size):
            give_way()
            part = slice(begin, begin + size)
            scores = rows @ keys[part].T
            _hide(scores.reshape(group, count, -1, copy=False), len(keys) - count - begin, window)
            before, highest = highest, np.maximum(highest, scores.max(axis=-1, keepdims=True))
            scores -= highest
            np.exp(scores, out=scores)
            shrunk = np.exp(before - highest)
            sums *= shrunk
            sums += scores @ ones[: scores.shape[1]]
            out *= shrunk
            out += scores @ values[part]
        out /= sums
    return out.reshape(q.shape)


def _hide(scores: Floats, own: int, window: int | None) -> None:
    """Make what a query must not see -inf.

    scores: (heads, queries, keys) of keys of which number `own` is the first query's own.
    """
    _, queries, keys = scores.shape
    if own < keys - 1:
        np.copyto(scores, -np.inf, where=~np.tri(queries, keys, own, dtype=np.bool_))
    if window is not None and own + queries > window:
        np.copyto(scores, -np.inf, where=np.tri(queries, keys, own - window, dtype=np.bool_))
