"""Attention of a few tokens of sequences on a CPU, where their pages lie: by numpy.

Keys and values are written and read in place, so nothing else may touch the pools meanwhile. Heads of keys
that are work enough are shared with a crew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from engine.cpu.crew import Crew
from engine.cpu.host_view import host_view
from engine.kv.arena import Arena
from engine.kv.few_queries import Seen, Slots, attend, listed, most_keys
from engine.kv.page_table import PageTable, Span, token_spans
from engine.kv.window import first_seen
from engine.layers import host_math
from engine.layers.attention import AttentionLayer
from engine.layers.host_math import Floats
from engine.layers.host_ops import normed
from metal.attention_shape import AttentionShape, HeadNorms

_FEW = 4
"""Tokens whose heads are rotated by products."""


class HostAttention:
    """An Attend in the host's memory: the next tokens of sequences, whose pages must exist already."""

    def __init__(
        self, arena: Arena, parts: Sequence[tuple[PageTable, int]], crew: Crew | None = None
    ) -> None:
        """`parts`: the sequences' tables, and how many tokens each gets; their rows follow each other.

        `crew`: shares a part's heads of keys; None where the thread that asks has them all.
        """
        self._arena, self._crew = arena, crew
        self._parts = [_Part(arena.page_size, table, tokens) for table, tokens in parts]
        self._positions = [part.start + i for part in self._parts for i in range(part.tokens)]
        self._spans = [span for part in self._parts for span in part.written]
        is_one = len(self._spans) == 1
        self._written = _slice(self._spans[0]) if is_one else listed(self._spans)
        self._turn: Callable[[Floats], Floats] | None = None

    def __call__(self, layer: AttentionLayer, qkv: Floats) -> Floats:
        """See Attend. A token at position p sees positions max(0, p - window + 1) … p, or all of 0 … p."""
        queries, read = self.write(layer, qkv)
        out = np.empty((len(qkv), queries[0].size), np.float32)
        begin = 0
        for part in self._parts:
            end = begin + part.tokens
            out[begin:end] = self._attend(queries[begin:end], *read(part))
            begin = end
        return out

    def last(self, layer: AttentionLayer, qkv: Floats, rows: int) -> Floats:
        """As called, of a part that is alone; only what its last `rows` tokens come to."""
        (part,) = self._parts
        queries, read = self.write(layer, qkv)
        keys, values, seen = read(part)
        return self._attend(queries[-rows:], keys, values, seen.by_last(rows))

    def _attend(self, q: Floats, keys: Floats, values: Floats, seen: Seen) -> Floats:
        """See `attend`; each head of keys is a piece for the crew, where these are work enough."""
        kv_heads, most = len(keys), 2 * q.size * seen.length // host_math.WORTH
        if self._crew is None or most < 2:
            return attend(q, keys, values, seen)
        out = np.empty((len(q), kv_heads, q[0, 0].size), np.float32)

        def compute(head: int) -> Floats:
            one = slice(head, head + 1)
            # Of a thread of the crew; a request ends where its logits are found not to be finite.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return attend(q[:, one], keys[one], values[one], seen)

        def keep(head: int, found: Floats) -> None:
            out[:, head] = found

        self._crew.each(kv_heads, compute, keep, most=most)
        return out.reshape(len(q), -1)

    def write(self, layer: AttentionLayer, qkv: Floats) -> tuple[Floats, Read]:
        """See Write; scaled queries (tokens, kv_heads, group, head_dim), and what reads all a part sees."""
        shape = layer.shape
        turned = shape.heads + shape.kv_heads
        heads = qkv.reshape(len(qkv), -1, shape.head_dim)
        both = self._rotated(layer, _normed(heads[:, :turned], layer.norms, shape))
        read = self._store(layer, both[:, shape.heads :], heads[:, turned:])
        queries = both[:, : shape.heads] * np.float32(shape.scale)
        return queries.reshape(len(qkv), shape.kv_heads, shape.group, shape.head_dim), read

    def _store(self, layer: AttentionLayer, keys: Floats, values: Floats) -> Read:
        """Store keys and values (tokens, kv_heads, head_dim); returns what reads those that a part sees."""
        arena, shape = self._arena, layer.shape
        if not arena.is_quantised:
            pools = arena.on_host(layer.index)
            for pool, rows in zip(pools, (keys, values), strict=True):
                pool[:, self._written] = rows.swapaxes(0, 1)
            return lambda part: (*pools, part.sees(shape))
        places = mx.array(listed(self._spans))
        arena.write_slots(layer.index, mx.array(keys), mx.array(values), places)

        def read(part: _Part) -> tuple[Floats, Floats, Seen]:
            decoded = arena.read_layer(layer.index, part.spans(shape.window))
            mx.eval(decoded)
            return (
                host_view(decoded[0]),
                host_view(decoded[1]),
                part.sees(shape).in_a_row(most_keys(part.tokens * shape.group, shape.head_dim)),
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


class _Part:
    """Tokens [start, start + tokens) of a sequence: where they are written, and what they see."""

    def __init__(self, page_size: int, table: PageTable, tokens: int) -> None:
        self.start, self.tokens = table.length, tokens
        self._page_size, self._table = page_size, table
        self.written = token_spans(table, page_size, self.start, self.start + tokens)
        self._seen: dict[int | None, Seen] = {}

    def sees(self, shape: AttentionShape) -> Seen:
        """In layers of that shape."""
        window = shape.window
        if window not in self._seen:
            self._seen[window] = Seen.of(self.spans(window), self.tokens, shape.group, shape.head_dim, window)
        return self._seen[window]

    def spans(self, window: int | None) -> list[Span]:
        """The slots of what it sees in layers with that window."""
        first = first_seen(self.start, window)
        return token_spans(self._table, self._page_size, first, self.start + self.tokens)


Read = Callable[[_Part], tuple[Floats, Floats, Seen]]
"""Keys and values (kv_heads, slots, head_dim) for a part, and where it looks."""


def _slice(span: Span) -> Slots:
    return slice(span.begin, span.end)


def _normed(heads: Floats, norms: HeadNorms | None, shape: AttentionShape) -> Floats:
    """Heads (tokens, n, head_dim), of queries and then of keys, behind their norms, if they have any."""
    if norms is None or shape.norm_epsilon is None:
        return heads
    out = np.empty(heads.shape, np.float32)
    for part, weight in ((slice(0, shape.heads), norms.query), (slice(shape.heads, None), norms.key)):
        rows = heads[:, part].reshape(-1, shape.head_dim)
        out[:, part] = normed(rows, host_view(weight), shape.norm_epsilon).reshape(out[:, part].shape)
    return out
