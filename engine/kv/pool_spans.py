"""Spans of slots in one of the arena's arrays, by MLX's own operations or where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.cpu.host_view import host_view
from engine.kv.page_table import Span
from engine.machine.machine import device_kind

Rows = TypeVar("Rows", mx.array, NDArray[np.float32])
"""MLX's, or where they lie in the host's memory."""


def gather(pool: mx.array, spans: Sequence[Span]) -> mx.array:
    """What `spans` of a pool (kv_heads, slots, width) hold, in order: a view of one, a copy of more."""
    views = [pool[:, span.begin : span.end] for span in spans]
    return views[0] if len(views) == 1 else mx.concatenate(views, axis=1)


def write(pool: Rows, rows: Rows, spans: Sequence[Span]) -> None:
    """Put `rows` (kv_heads, tokens, width) into `spans` of a pool (kv_heads, slots, width), in order."""
    begin = 0
    for span in spans:
        end = begin + span.length
        pool[:, span.begin : span.end] = rows[:, begin:end]
        begin = end


def copy(pools: list[mx.array], source: int, target: int, slots: int) -> None:
    """Put so many slots from `source` on, of each pool, into those from `target` on.

    On a CPU in place: MLX would copy pools that the host sees.
    """
    new, old = slice(target, target + slots), slice(source, source + slots)
    if device_kind() == "CPU":
        mx.eval(pools)
        for pool in pools:
            rows = host_view(bits(pool))
            rows[:, new] = rows[:, old]
        return
    parts = [mx.contiguous(pool[:, old]) for pool in pools]
    mx.eval(parts)  # a view of a pool in flight would make its next write copy the whole pool
    for layer, part in enumerate(parts):
        pools[layer][:, new] = part


def bits(array: mx.array) -> mx.array:
    """The same memory as integers, for what numpy has no type for."""
    return array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
