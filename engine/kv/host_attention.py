"""Attention of a few tokens of sequences on a CPU, where their pages lie: by numpy, on the thread that asks.

Keys and values are written and read in place, so nothing else may touch the pools meanwhile. They are met
some at a time, so that what BLAS copies of them stays in the processor's second cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.host_view import host_view
from engine.kv.arena import Arena
from engine.kv.page_table import PageTable, Span
from engine.kv.pager import Pager
from engine.kv.window import first_seen
from engine.layers import host_math
from engine.layers.attention import AttentionLayer
from engine.layers.host_math import Floats
from engine.layers.host_ops import normed
from metal.attention_shape import AttentionShape, HeadNorms

KEYS, FEWEST_KEYS = 512, 64
"""Met at a time, at most and at least."""

_IN_A_ROW = 64
"""Slots that are read where they lie; shorter runs are copied next to others."""

_FEW = 4
"""Tokens whose heads are rotated by products."""

Slots = slice | NDArray[np.int32]
"""Some, in order: in a row, or any."""


class HostAttention:
    """An Attend in the host's memory: the next tokens of sequences, whose pages must exist already."""

    def __init__(self, arena: Arena, pager: Pager, parts: Sequence[tuple[PageTable, int]]) -> None:
        """`parts`: the sequences' tables, and how many tokens each gets; their rows follow each other."""
        self._arena = arena
        self._parts = [_Part(pager, table, tokens) for table, tokens in parts]
        self._positions = [part.start + i for part in self._parts for i in range(part.tokens)]
        self._spans = [span for part in self._parts for span in part.written]
        is_one = len(self._spans) == 1
        self._written = _slice(self._spans[0]) if is_one else _listed(self._spans)
        self._turn: Callable[[Floats], Floats] | None = None

    def __call__(self, layer: AttentionLayer, qkv: Floats) -> Floats:
        """See Attend. A token at position p sees positions max(0, p - window + 1) … p, or all of 0 … p."""
        shape = layer.shape
        turned = shape.heads + shape.kv_heads
        heads = qkv.reshape(len(qkv), -1, shape.head_dim)
        both = self._rotated(layer, _normed(heads[:, :turned], layer.norms, shape))
        read = self._write(layer, both[:, shape.heads :], heads[:, turned:])
        queries = both[:, : shape.heads] * np.float32(shape.scale)
        out = np.empty((len(qkv), shape.heads * shape.head_dim), np.float32)
        begin = 0
        for part in self._parts:
            end = begin + part.tokens
            grouped = queries[begin:end].reshape(part.tokens, shape.kv_heads, shape.group, -1)
            out[begin:end] = _attend(grouped, *read(part))
            begin = end
        return out

    def _write(self, layer: AttentionLayer, keys: Floats, values: Floats) -> Read:
        """Store keys and values (tokens, kv_heads, head_dim); returns what reads those that a part sees."""
        arena, shape = self._arena, layer.shape
        if not arena.is_quantised:
            pools = arena.on_host(layer.index)
            for pool, rows in zip(pools, (keys, values), strict=True):
                pool[:, self._written] = rows.swapaxes(0, 1)
            return lambda part: (*pools, part.sees(shape))
        listed = mx.array(_listed(self._spans))
        arena.write_slots(layer.index, mx.array(keys), mx.array(values), listed)

        def read(part: _Part) -> tuple[Floats, Floats, _Seen]:
            decoded = arena.read_layer(layer.index, part.spans(shape.window))
            mx.eval(decoded)
            return (
                host_view(decoded[0]),
                host_view(decoded[1]),
                part.sees(shape).in_a_row(most_keys(part.tokens * shape.group)),
            )

        return read

    def _rotated(self, layer: AttentionLayer, heads: Floats) -> Floats:
        """Heads (tokens, n, head_dim) with their pairs (i, i + d/2) rotated."""
        if self._turn is None:  # equal in all layers
            self._turn = _turn(*layer.rope.angles(self._positions))
        return self._turn(heads)


def _turn(cos: Floats, sin: Floats) -> Callable[[Floats], Floats]:
    """Rotates heads (tokens, n, head_dim) by angles (tokens, head_dim/2)."""
    if len(cos) > _FEW:
        return lambda heads: host_math.rotated(heads, cos[:, None], sin[:, None])
    matrices = host_math.turning(cos, sin)
    return lambda heads: heads @ matrices


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a part's tokens see in a layer.

    Attributes:
        pieces: where it lies, in order.
        length: of all of it.
        hidden: (tokens, 1, length), where a token does not see it; None where all do.
    """

    pieces: list[Slots]
    length: int
    hidden: NDArray[np.bool_] | None

    def in_a_row(self, most: int) -> _Seen:
        """The same where it was copied to one place; of `most` slots a piece."""
        return replace(self, pieces=slots([Span(0, self.length)], most))


class _Part:
    """Tokens [start, start + tokens) of a sequence: where they are written, and what they see."""

    def __init__(self, pager: Pager, table: PageTable, tokens: int) -> None:
        self.start, self.tokens = table.length, tokens
        self._pager, self._table = pager, table
        self.written = pager.spans(table, self.start, self.start + tokens)
        self._seen: dict[int | None, _Seen] = {}

    def sees(self, shape: AttentionShape) -> _Seen:
        """In layers of that shape."""
        window = shape.window
        if window not in self._seen:
            first = first_seen(self.start, window)
            hidden = self._hidden(first, window) if self.tokens > 1 else None
            length = self.start + self.tokens - first
            pieces = slots(self.spans(window), most_keys(self.tokens * shape.group))
            self._seen[window] = _Seen(pieces, length, hidden)
        return self._seen[window]

    def spans(self, window: int | None) -> list[Span]:
        """The slots of what it sees in layers with that window."""
        return self._pager.spans(self._table, first_seen(self.start, window), self.start + self.tokens)

    def _hidden(self, first: int, window: int | None) -> NDArray[np.bool_]:
        own = np.arange(self.start, self.start + self.tokens)[:, None, None]
        positions = np.arange(first, self.start + self.tokens)
        hidden = positions > own
        return hidden if window is None else hidden | (positions <= own - window)


Read = Callable[[_Part], tuple[Floats, Floats, _Seen]]
"""Keys and values (kv_heads, slots, head_dim) for a part, and where it looks."""


def _attend(q: Floats, keys: Floats, values: Floats, seen: _Seen) -> Floats:
    """softmax(q Kᵀ) V of scaled queries (tokens, kv_heads, group, head_dim): (tokens, heads · head_dim)."""
    tokens, kv_heads, group, head_dim = q.shape
    rows = q.swapaxes(0, 1).reshape(kv_heads, tokens * group, head_dim)
    weights = np.empty((kv_heads, len(rows[0]), seen.length), np.float32)
    begin = 0
    for piece in seen.pieces:
        met = keys[:, piece]
        end = begin + met.shape[1]
        np.matmul(rows, met.swapaxes(1, 2), out=weights[:, :, begin:end])
        begin = end
    if seen.hidden is not None:
        np.copyto(weights.reshape(kv_heads, tokens, group, -1), -np.inf, where=seen.hidden)
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    out, begin = np.zeros_like(rows), 0
    for piece in seen.pieces:
        met = values[:, piece]
        end = begin + met.shape[1]
        out += weights[:, :, begin:end] @ met
        begin = end
    out /= weights.sum(axis=-1, keepdims=True)
    return out.reshape(kv_heads, tokens, -1).swapaxes(0, 1).reshape(tokens, -1)


def most_keys(rows: int) -> int:
    """Keys that so many rows of queries meet at a time: few enough that BLAS copies none, where it can be."""
    return min(KEYS, host_math.AT_ONCE // rows) if rows * FEWEST_KEYS <= host_math.AT_ONCE else KEYS


def slots(spans: Sequence[Span], most: int) -> list[Slots]:
    """Those of `spans` in order, `most` at a time: long runs as slices, what lies scattered listed."""
    pieces: list[Slots] = []
    for is_long, run in groupby(spans, lambda span: span.length >= _IN_A_ROW or len(spans) == 1):
        if is_long:
            ends = [(begin, span.end) for span in run for begin in range(span.begin, span.end, most)]
            pieces += [slice(begin, min(begin + most, end)) for begin, end in ends]
        else:
            listed = _listed(list(run))
            pieces += [listed[begin : begin + most] for begin in range(0, len(listed), most)]
    return pieces


def _slice(span: Span) -> Slots:
    return slice(span.begin, span.end)


def _listed(spans: Sequence[Span]) -> NDArray[np.int32]:
    return np.concatenate([np.arange(span.begin, span.end, dtype=np.int32) for span in spans])


def _normed(heads: Floats, norms: HeadNorms | None, shape: AttentionShape) -> Floats:
    """Heads (tokens, n, head_dim), of queries and then of keys, behind their norms, if they have any."""
    if norms is None or shape.norm_epsilon is None:
        return heads
    out = np.empty(heads.shape, np.float32)
    for part, weight in ((slice(0, shape.heads), norms.query), (slice(shape.heads, None), norms.key)):
        rows = heads[:, part].reshape(-1, shape.head_dim)
        out[:, part] = normed(rows, host_view(weight), shape.norm_epsilon).reshape(out[:, part].shape)
    return out
