"""Rows put through a function some at a time, so that what it needs in between stays small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import mlx.core as mx

PIECE = 1 << 20
"""Weights that are changed at once."""

MULTIPLIED = 1 << 24
"""Weights that are made for a product at once; about 200 MB with what they are computed from."""

MULTIPLIED_BY_CPU = 1 << 19
"""The same on a CPU, in whose caches they then stay.

Of 2,048 × 5,632 weights a product of one row took 12 to 27 ms of one processor (Q4_0, Q3_K, Q6_K, Q5_1), with
1 << 24 39 to 55; of 512 rows 142 to 162, and 154 to 179 (AMD EPYC, MLX 0.32.4, OpenBLAS).
"""


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


def product_by_pieces(
    x: mx.array, packed: Sequence[mx.array], width: int, weights: Callable[..., mx.array]
) -> mx.array:
    """x Wᵀ, in x's dtype, for x (tokens, width): `weights` makes rows of W of the same rows of `packed`.

    Some rows' weights at a time: MLX computes what does not wait for anything at once, and the weights of a
    whole model would lie in memory together. So they are made to wait, for x and for the rows before.
    """
    at_once = MULTIPLIED_BY_CPU if mx.default_device() == mx.cpu else MULTIPLIED
    rows, step, products = packed[0].shape[0], max(1, at_once // width), list[mx.array]()
    for first in range(0, rows, step):
        some = packed if step >= rows else [array[first : first + step] for array in packed]
        awaited = products[-1] if products else x
        needed = cast("list[mx.array]", mx.depends(list(some), [awaited]))
        products.append(x @ weights(*needed).astype(x.dtype).T)
    return products[0] if len(products) == 1 else mx.concatenate(products, axis=-1)
