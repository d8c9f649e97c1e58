"""Sequences over pages for prefill attention, and what it should answer, in float64 numpy."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal.attention_shape import AttentionShape
from metal.pools import Pages, Pools, no_fence
from metal.sequences import Sequences
from tests.metal.numbers import normal, wide

Array = NDArray[np.float64]
Counts = list[tuple[int, int]]  # of each: tokens before, new tokens


@dataclass(frozen=True, slots=True)
class Scene:
    """Rotated queries of all rows, the pages of each sequence, and its keys and values, new ones included."""

    queries: mx.array
    pages: Pages
    offsets: list[int]
    sinks: mx.array | None
    keys: list[mx.array]
    values: list[mx.array]


def make_scene(shape: AttentionShape, sequences: Counts, spare_rows: int = 0) -> Scene:
    """Sequences on shuffled pages; a slot that holds no token is NaN, and so is a page that is in no table.

    Pages that left a window, and those of a sequence that is not in use, are -1: nobody may look there.
    """
    rng, page = np.random.default_rng(5), shape.page_size
    totals = [max(history, 0) + new for history, new in sequences]
    counts = [-(-total // page) + 1 for total in totals]  # one page more than needed, all NaN
    order = rng.permutation(sum(counts) + 1)
    tables = np.full((len(sequences), max(counts) + 1), -1, np.int32)
    pools = np.full((2, shape.kv_heads, len(order) * page, shape.head_dim), np.nan, np.float32)
    stored: list[tuple[mx.array, mx.array]] = []
    for index, ((history, _), total, count) in enumerate(zip(sequences, totals, counts, strict=True)):
        tables[index, :count], order = order[:count], order[count:]
        token = np.arange(total)
        slots = tables[index, token // page].astype(np.int64) * page + token % page
        pair = [normal((shape.kv_heads, total, shape.head_dim), shape.dtype, 10 * index + i) for i in (1, 2)]
        for pool, values in zip(pools, pair, strict=True):
            pool[:, slots] = wide(values)
        stored.append((pair[0], pair[1]))
        left = 0 if shape.window is None else max(0, history + 1 - shape.window) // page
        tables[index, : left if history >= 0 else None] = -1
    starts = np.cumsum([0, *(new for _, new in sequences)])
    pad = [0] * max(0, 8 - len(sequences))
    keys, values = (mx.array(pool).astype(shape.dtype) for pool in pools)
    lengths = mx.array([*(history for history, _ in sequences), *pad], dtype=mx.int32)
    mx.eval(keys, values)
    return Scene(
        normal((shape.heads, int(starts[-1]) + spare_rows, shape.head_dim), shape.dtype, 3),
        Pages(Pools.whole(keys, values, no_fence(keys.dtype)), mx.array(tables), lengths),
        starts.tolist(),
        normal((shape.heads,), shape.dtype, 93) if shape.sinks else None,
        [pair[0] for pair in stored],
        [pair[1] for pair in stored],
    )


def sequences_of(pages: Pages, offsets: list[int], rows: int) -> Sequences:
    slots = pages.pools.keys.shape[1]
    return Sequences.of(pages.tables, pages.lengths, mx.array(offsets, mx.int32), slots=slots, rows=rows)


def attended(shape: AttentionShape, queries: Array, keys: Array, values: Array, sinks: Array | None) -> Array:
    """The last rows of one sequence, (rows, heads · head_dim), from (heads or kv_heads, tokens, head_dim)."""
    rows, tokens = queries.shape[1], keys.shape[1]
    age = np.arange(tokens - rows, tokens)[:, None] - np.arange(tokens)
    seen = (age >= 0) & (age < (shape.window or tokens))
    out = np.zeros((rows, shape.heads, shape.head_dim))
    for head in range(shape.heads):
        scores = queries[head] @ keys[head // shape.group].T * shape.scale
        if shape.softcap is not None:
            scores = shape.softcap * np.tanh(scores / shape.softcap)
        weights = np.where(seen, np.exp(scores), 0)
        total = weights.sum(1) + (0 if sinks is None else np.exp(sinks[head]))
        out[:, head] = weights @ values[head // shape.group] / total[:, None]
    return out.reshape(rows, -1)


def slots_of(scene: Scene, sequence: int, tokens: NDArray[np.int64], page: int) -> NDArray[np.int64]:
    table = np.array(scene.pages.tables)[sequence].astype(np.int64)
    return table[tokens // page] * page + tokens % page
