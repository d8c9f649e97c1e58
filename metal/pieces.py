"""Rows put through a function some at a time, so that what it needs in between stays small."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

PIECE = 1 << 20
"""Weights that are changed at once."""


def by_pieces(rows: mx.array, width: int, change: Callable[[mx.array], mx.array]) -> mx.array:
    """`change` of (rows, bytes) that stand for `width` weights each, as one evaluated array.

    `change` is given some neighbouring rows and returns as many.
    """
    count, step = rows.shape[0], max(1, PIECE // width)
    if count <= step:
        whole = change(rows)
        mx.eval(whole)
        return whole
    first = change(rows[:step])
    result = mx.zeros((count, *first.shape[1:]), first.dtype)
    result[:step] = first
    mx.eval(result)
    del first
    for at in range(step, count, step):
        result[at : at + step] = change(rows[at : at + step])
        mx.eval(result)  # in place, as nothing else holds it
    return result
