"""Spans of slots in one of the arena's arrays, by MLX's own operations."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from engine.kv.page_table import Span


def gather(pool: mx.array, spans: Sequence[Span]) -> mx.array:
    """What `spans` of a pool (kv_heads, slots, width) hold, in order: a view of one, a copy of more."""
    views = [pool[:, span.begin : span.end] for span in spans]
    return views[0] if len(views) == 1 else mx.concatenate(views, axis=1)


def write(pools: list[mx.array], layer: int, rows: mx.array, spans: Sequence[Span]) -> None:
    """Put `rows` (kv_heads, tokens, width) into `spans` of the pool of `layer`, in order."""
    begin = 0
    for span in spans:
        end = begin + span.length
        pools[layer][:, span.begin : span.end] = rows[:, begin:end]
        begin = end


def bits(array: mx.array) -> mx.array:
    """The same memory as integers, for what numpy has no type for."""
    return array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
