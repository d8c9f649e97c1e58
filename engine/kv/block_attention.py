"""Attention of many tokens of one sequence on a CPU, a piece at a time: queries of heads that share keys.

Numpy computes it where the numbers lie (engine/layers/host_math.py). A piece meets only the keys that some of
its queries see, and has a megabyte of scores in memory however many these are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from engine.cpu.crew import Crew
from engine.cpu.host_view import host_view
from engine.kv.few_queries import Seen, attend
from engine.kv.page_table import Span
from engine.kv.window import first_seen
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

_BEHIND = 4
"""Columns behind those of keys and values: a one, and three that let rows begin at multiples of 16 bytes."""

_FEW = 256
"""Queries of heads that share keys: for fewer these are not copied."""


def attend_in_blocks(
    q: mx.array,
    keys: Sequence[Floats],
    values: Sequence[Floats],
    scale: float,
    window: int | None,
    crew: Crew,
) -> mx.array:
    """softmax(scale · q Kᵀ) V, where each query sees the keys up to its own, the last `window` of them.

    Args:
        q: float32 (heads, tokens, head_dim), of the last tokens of the sequence.
        keys, values: float32 (kv_heads, some, head_dim), one behind the other those of its last n >= tokens:
            all that the queries see.
        window: None for all.
        crew: shares the queries.

    Returns:
        (tokens, heads · head_dim), evaluated.
    """
    heads, tokens, head_dim = q.shape
    kv_heads, seen = len(keys[0]), sum(part.shape[1] for part in keys)
    group = heads // kv_heads
    is_few = tokens * group < _FEW
    result = mx.zeros((tokens, heads * head_dim))
    q = q.reshape(kv_heads, group, tokens, head_dim) * scale
    mx.eval(q, result)
    in_a_row = _in_a_row if is_few else with_ones
    queries, key_rows, value_rows = host_view(q), in_a_row(keys), in_a_row(values)
    outs = host_view(result).reshape(tokens, kv_heads, group, head_dim, copy=False)
    query = 2 * group * seen * head_dim  # multiplications that it takes
    # As many queries as give each thread some pieces, or as are worth one, and as are quick together.
    most = min(max(-(-tokens * kv_heads // (_PIECES * crew.size)), _WORTH // query), ROWS // group)
    parts = _parts(kv_heads, tokens, max(FEWEST_QUERIES, most))
    meet = _attend_few if is_few else attend_block

    def attend(piece: int) -> Floats:
        head, rows = parts[piece]
        end = seen - tokens + rows.stop
        own = queries[head, :, rows]
        first = first_seen(end - own.shape[1], window)
        return meet(own, key_rows[head, first:end], value_rows[head, first:end], window)

    def keep(piece: int, out: Floats) -> None:
        head, rows = parts[piece]
        outs[rows, head] = out.swapaxes(0, 1)

    crew.each(len(parts), attend, keep, most=tokens * kv_heads * query // _WORTH)
    return result


def _parts(kv_heads: int, tokens: int, most: int) -> list[tuple[int, slice]]:
    """Of each piece the head of keys and the queries, at most so many."""
    size = -(-tokens // -(-tokens // most))
    blocks = [slice(begin, min(begin + size, tokens)) for begin in range(0, tokens, size)]
    return [(head, rows) for rows in blocks for head in range(kv_heads)]


def _in_a_row(parts: Sequence[Floats]) -> Floats:
    """Some (kv_heads, n, head_dim) one behind the other; one alone where it lies."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def with_ones(parts: Sequence[Floats], room: int = 0) -> Floats:
    """A copy of them one behind the other, with _BEHIND more columns, of which the first has ones.

    `room`: rows behind them, for whoever fills their columns before.
    """
    kv_heads, _, head_dim = parts[0].shape
    count, begin = sum(part.shape[1] for part in parts) + room, 0
    out = np.empty((kv_heads, count, head_dim + _BEHIND), np.float32)
    for part in parts:
        out[:, begin : begin + part.shape[1], :head_dim] = part
        begin += part.shape[1]
    out[..., head_dim] = 1
    out[..., head_dim + 1 :] = 0
    return out


def _attend_few(q: Floats, keys: Floats, values: Floats, window: int | None) -> Floats:
    """As `attend_in_blocks`, of queries (group, n, head_dim), the last n of m keys (m, head_dim)."""
    group, count, head_dim = q.shape
    seen = Seen.of([Span(0, len(keys))], count, group, head_dim, window)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        out = attend(q.swapaxes(0, 1)[:, None], keys[None], values[None], seen)
    return out.reshape(count, group, head_dim).swapaxes(0, 1)


def attend_block(
    q: Floats,
    keys: Floats,
    values: Floats,
    window: int | None,
    give_way: Callable[[], None] = lambda: None,
) -> Floats:
    """As `attend_in_blocks`, of queries (group, n, head_dim), the last n of m keys: see `with_ones`.

    Keys are met some at a time, and `give_way` is called between. Exponentials are of scores less the largest
    of those that are met first, among which is each query's own: what is subtracted is one more column of the
    product, and their sum one of the next. Where a later score is so much larger that they overflow, all is
    computed again less the largest of all.
    """
    group, count, head_dim = q.shape
    asked = np.zeros((group * count, head_dim + _BEHIND), np.float32)
    asked[:, :head_dim] = q.reshape(group * count, head_dim)
    size = max(count, SCORES // len(asked))
    parts = [slice(max(0, end - size), end) for end in range(len(keys), 0, -size)]
    begin = len(keys) - count

    def scores(part: slice) -> Floats:
        give_way()
        found = asked @ keys[part].T
        _hide(found.reshape(group, count, -1, copy=False), begin - part.start, window)
        return found

    def sums(first: Floats) -> Floats:
        """Of values, and of ones; of the first part the scores are there."""
        out = np.exp(first, out=first) @ values[parts[0]]
        for part in parts[1:]:
            found = scores(part)
            out += np.exp(found, out=found) @ values[part]
        return out

    with np.errstate(over="ignore", invalid="ignore"):
        first = scores(parts[0])
        highest = first.max(axis=-1)
        first -= highest[:, None]
        asked[:, head_dim] = -highest
        out = sums(first)
        if not np.isfinite(out).all():  # or a request ends where its logits are found not to be finite
            asked[:, head_dim] = 0
            asked[:, head_dim] = -np.max([scores(part).max(axis=-1) for part in parts], axis=0)
            out = sums(scores(parts[0]))
        out[:, :head_dim] /= out[:, head_dim : head_dim + 1]
    return out[:, :head_dim].reshape(q.shape)


def _hide(scores: Floats, own: int, window: int | None) -> None:
    """Make what a query must not see -inf.

    scores: (heads, queries, keys) of keys of which number `own` is the first query's own.
    """
    _, queries, keys = scores.shape
    if own < keys - 1:
        np.copyto(scores, -np.inf, where=~np.tri(queries, keys, own, dtype=np.bool_))
    if window is not None and own + queries > window:
        np.copyto(scores, -np.inf, where=np.tri(queries, keys, own - window, dtype=np.bool_))
