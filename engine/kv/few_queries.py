"""Attention of few queries where keys and values lie in the host's memory: by numpy.

OpenBLAS copies the factors of a product before it multiplies, which takes longer than few rows do, but for
small products (engine/layers/host_math.py). So keys are met some at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from engine.kv.page_table import Span
from engine.layers import host_math
from engine.layers.host_math import Floats

KEYS = 512
"""Met at a time by FEW rows, at most."""

FEW = 8
"""Rows of queries up to which weights lie row after row, not key after key.

Then keys are a factor that is turned, and one row's weights are next to each other. With 2 heads of keys, of
64, 2 rows take 60 µs for 1,000 keys so, 70 the other way; 8 rows 99 and 87, with 8 heads of 128 694 and 847;
16 rows 960 and 560 for 4,119 keys (AMD EPYC, one thread, 2026-11-27).
"""

_FEWEST_KEYS = 128
"""Met at a time: rather all of them at once."""

_ALL = 1 << 31

_SIDE_BY_SIDE = 64
"""Keys whose weights are gone through together, as one long row."""

_IN_A_ROW = 64
"""Slots that are read where they lie; shorter runs are copied next to others."""

Slots = slice | NDArray[np.int32]
"""Some, in order: in a row, or any."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What some tokens see in a layer.

    Attributes:
        pieces: where it lies, in order.
        length: of all of it.
        hidden: (tokens, n), where a token does not see the last n; None where all see everything.
    """

    pieces: list[Slots]
    length: int
    hidden: NDArray[np.bool_] | None

    @classmethod
    def of(cls, spans: Sequence[Span], tokens: int, group: int, head_dim: int, window: int | None) -> Seen:
        """Of the last `tokens` of those whose keys lie in `spans`: each sees up to its own, `window` at most.

        `group`: queries that a token has for a head of keys.
        """
        length = sum(span.length for span in spans)
        own = np.arange(length - tokens, length)[:, None]
        if tokens == 1:
            hidden = None
        elif window is None or length <= window:
            hidden = own < own.T
        else:
            positions = np.arange(length)
            hidden = (positions > own) | (positions <= own - window)
        return cls(slots(spans, most_keys(tokens * group, head_dim)), length, hidden)

    def by_last(self, rows: int) -> Seen:
        """The same for the last tokens alone."""
        return self if self.hidden is None else replace(self, hidden=self.hidden[-rows:])

    def in_a_row(self, most: int) -> Seen:
        """The same where it was copied to one place; of `most` slots a piece."""
        return replace(self, pieces=slots([Span(0, self.length)], most))


def most_keys(rows: int, head_dim: int) -> int:
    """Keys that so many rows of queries meet at a time, so that BLAS copies none where it can be."""
    if rows <= FEW:
        return min(KEYS, host_math.TURNED_AT_ONCE // rows)
    most = host_math.AT_ONCE // (rows * head_dim)
    return most if most >= _FEWEST_KEYS else _ALL


def attend(q: Floats, keys: Floats, values: Floats, seen: Seen) -> Floats:
    """softmax(q Kᵀ) V of scaled queries (tokens, kv_heads, group, head_dim): (tokens, heads · head_dim).

    keys, values: (kv_heads, slots, head_dim), of which the tokens see some.
    """
    tokens, kv_heads, group, head_dim = q.shape
    rows = q.swapaxes(0, 1).reshape(kv_heads, tokens * group, head_dim)
    out = (_by_rows if tokens * group <= FEW else _by_keys)(rows, keys, values, seen)
    return out.reshape(kv_heads, tokens, -1).swapaxes(0, 1).reshape(tokens, -1)


def _by_rows(rows: Floats, keys: Floats, values: Floats, seen: Seen) -> Floats:
    """`attend` for (kv_heads, n, head_dim) queries, a token's next to each other; the same of what comes."""
    weights = np.empty((*rows.shape[:2], seen.length), np.float32)
    begin = 0
    for piece in seen.pieces:
        met = keys[:, piece]
        end = begin + met.shape[1]
        np.matmul(rows, met.swapaxes(1, 2), out=weights[:, :, begin:end])
        begin = end
    if seen.hidden is not None:
        tokens, last = seen.hidden.shape
        some = weights.reshape(len(rows), tokens, -1, seen.length, copy=False)[..., -last:]
        np.copyto(some, -np.inf, where=seen.hidden[:, None])
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    out, begin = np.zeros_like(rows), 0
    for piece in seen.pieces:
        met = values[:, piece]
        end = begin + met.shape[1]
        out += weights[:, :, begin:end] @ met
        begin = end
    out /= weights.sum(axis=-1, keepdims=True)
    return out


def _by_keys(rows: Floats, keys: Floats, values: Floats, seen: Seen) -> Floats:
    """The same; a key's weights for all rows lie next to each other."""
    heads, count, _ = rows.shape
    turned = np.ascontiguousarray(rows.swapaxes(1, 2))
    room = -(-seen.length // _SIDE_BY_SIDE) * _SIDE_BY_SIDE
    weights = np.empty((heads, room, count), np.float32)
    weights[:, seen.length :] = -np.inf
    begin = 0
    for piece in seen.pieces:
        met = keys[:, piece]
        end = begin + met.shape[1]
        np.matmul(met, turned, out=weights[:, begin:end])
        begin = end
    if seen.hidden is not None:
        tokens, last = seen.hidden.shape
        some = weights[:, seen.length - last : seen.length]
        some = some.reshape(heads, last, tokens, -1, copy=False)
        np.copyto(some, -np.inf, where=seen.hidden.T[..., None])
    side_by_side = weights.reshape(heads, -1, _SIDE_BY_SIDE * count, copy=False)
    highest = side_by_side.max(axis=1).reshape(heads, _SIDE_BY_SIDE, count).max(axis=1)
    side_by_side -= np.tile(highest, _SIDE_BY_SIDE)[:, None]
    np.exp(weights, out=weights)
    out, begin = np.zeros_like(rows), 0
    for piece in seen.pieces:
        met = values[:, piece]
        end = begin + met.shape[1]
        out += weights[:, begin:end].swapaxes(1, 2) @ met
        begin = end
    out /= (np.ones(room, np.float32) @ weights)[..., None]  # BLAS adds up sooner than numpy
    return out


def slots(spans: Sequence[Span], most: int) -> list[Slots]:
    """Those of `spans` in order, `most` at a time: long runs as slices, what lies scattered listed."""
    pieces: list[Slots] = []
    for is_long, run in groupby(spans, lambda span: span.length >= _IN_A_ROW or len(spans) == 1):
        if is_long:
            ends = [(begin, span.end) for span in run for begin in range(span.begin, span.end, most)]
            pieces += [slice(begin, min(begin + most, end)) for begin, end in ends]
        else:
            rows = listed(list(run))
            pieces += [rows[begin : begin + most] for begin in range(0, len(rows), most)]
    return pieces


def listed(spans: Sequence[Span]) -> NDArray[np.int32]:
    """The slots of `spans`, in order."""
    return np.concatenate([np.arange(span.begin, span.end, dtype=np.int32) for span in spans])
