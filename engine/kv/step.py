"""One forward pass over sequences: where their keys and values go, and attention over their pages.

This is the functional set: MLX's built-in attention on what the arena gives, and writes that yield new pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import mlx.core as mx

from engine.cpu.crew import Crew
from engine.cpu.host_view import host_view
from engine.kv.arena import Arena
from engine.kv.block_attention import attend_in_blocks
from engine.kv.heads import heads_on_host, is_for_host, rotated_heads
from engine.kv.page_table import PageTable, Span, token_spans
from engine.kv.together import MOST_FOLDED, Beside
from engine.kv.window import first_seen
from engine.layers.attention import AttentionLayer
from engine.layers.host_math import FEWEST
from engine.layers.rope import Angles, Rope

StepForm = tuple[tuple[int, ...], ...]
"""What a step's operations hang on but the model: equal forms launch the same ones."""


@dataclass(frozen=True, slots=True)
class Visible:
    """What a step's tokens see in a layer: the keys' slots, and a mask where causality is not enough."""

    spans: list[Span]
    mask: mx.array | str | None


class FunctionalStep:
    """The next tokens of several sequences, whose pages must exist already: an Attend.

    All of a layer's writes come before its first read: a pool that somebody reads would be copied by the
    next write.
    """

    def __init__(
        self, arena: Arena, parts: Sequence[tuple[PageTable, int]], *, crew: Crew | None = None
    ) -> None:
        """`parts`: the sequences' tables, and how many tokens each gets; their rows follow each other.

        `crew`: computes what it can, on a CPU, and the step is evaluated in the middle; None for a decode
        step, whose tokens nobody has waited for yet, and whose operations are counted.
        """
        self._arena = arena
        self._parts = [_Part(arena.page_size, table, tokens) for table, tokens in parts]
        self._crew = crew if arena.coding.dtype == mx.float32 else None
        singles = list(takewhile(lambda part: part.tokens == 1, self._parts))
        self._singles = len(singles) if len(singles) > 1 else 0
        """The first parts, of one token each, where there are several: they are written together."""
        if self._singles:
            self._starts = mx.array([part.start for part in singles], dtype=mx.int32)
            self._slots = mx.array([part.written[0].begin for part in singles], dtype=mx.int32)

        self._beside: dict[int | None, Beside] = {}

    @property
    def form(self) -> tuple[StepForm, ...]:
        """The form of the step, when it was built for all layers."""
        beside = tuple((window or 0, *beside.form) for window, beside in self._beside.items())
        return (*(part.form for part in self._parts), beside)

    def __call__(self, layer: AttentionLayer, qkv: mx.array) -> mx.array:
        """See Attend. A token at position p sees positions max(0, p - window + 1) … p, or all of 0 … p."""
        singles, queries = self.write(layer, qkv)
        outs = [] if singles is None else self._attend_singles(layer, singles)
        others = zip(self._parts[self._singles :], queries, strict=True)
        outs += [self._attend(layer, part, q) for part, q in others]
        return outs[0] if len(outs) == 1 else mx.concatenate(outs)

    def last(self, layer: AttentionLayer, qkv: mx.array, rows: int) -> mx.array:
        """As called, of a part that is alone; only what its last `rows` tokens come to."""
        (part,) = self._parts
        _, (q,) = self.write(layer, qkv)
        return self._attend(layer, part, q[:, :, -rows:])

    def write(self, layer: AttentionLayer, qkv: mx.array) -> tuple[mx.array | None, list[mx.array]]:
        """See Write; normed and rotated queries of the singles, (n, heads, 1, head_dim), if there are any.

        Behind them those of each other part, (1, heads, tokens, head_dim).
        """
        singles, queries = None, list[mx.array]()
        begin = self._singles
        if begin:
            singles, k, v = rotated_heads(layer, qkv[:begin, None], self._starts)
            self._arena.write_slots(layer.index, k.squeeze(2), v.squeeze(2), self._slots)
        for part in self._parts[begin:]:
            end = begin + part.tokens
            if self._crew is not None and is_for_host(layer.shape, part.tokens):
                q, k, v = heads_on_host(layer, qkv[begin:end], part.angles(layer.rope), self._crew)
                q = q[None]
            else:
                heads = rotated_heads(layer, qkv[None, begin:end], part.start)
                q, k, v = heads[0], heads[1].squeeze(0), heads[2].squeeze(0)
            self._arena.write_layer(layer.index, k, v, part.written)
            queries.append(q)
            begin = end
        return singles, queries

    def _attend_singles(self, layer: AttentionLayer, q: mx.array) -> list[mx.array]:
        """Of q (n, heads, 1, head_dim), in order: those that see about as much together, others alone."""
        window = layer.shape.window
        if window not in self._beside:
            seen = [part.spans(window) for part in self._parts[: len(q)]]
            self._beside[window] = Beside(self._arena, seen)
        beside = self._beside[window]
        outs = [
            group.attend(layer.index, layer.shape, q if len(group.members) == len(q) else q[group.rows])
            for group in beside.groups
        ]
        outs += [self._attend(layer, self._parts[row], q[row : row + 1]) for row in beside.alone]
        return outs if beside.order is None else [mx.concatenate(outs)[beside.order]]

    def _attend(self, layer: AttentionLayer, part: _Part, q: mx.array) -> mx.array:
        """Of q (1, heads, tokens, head_dim), the part's last ones."""
        shape, visible, tokens = layer.shape, part.sees(layer.shape.window), q.shape[2]
        keys, values = self._arena.read_layer(layer.index, visible.spans)
        if self._crew is not None and shape.heads * tokens * keys.shape[1] >= FEWEST:
            mx.eval(keys, values)
            there = [host_view(keys)], [host_view(values)]
            return attend_in_blocks(q.squeeze(0), *there, shape.scale, shape.window, self._crew)
        mask = visible.mask[-tokens:] if isinstance(visible.mask, mx.array) else visible.mask
        if mask is None and shape.group <= MOST_FOLDED:
            # The heads of a group become rows of one query: a CPU then reads keys and values once.
            q = q.reshape(1, shape.kv_heads, shape.group, -1)
        out = mx.fast.scaled_dot_product_attention(q, keys[None], values[None], scale=shape.scale, mask=mask)
        return out.reshape(shape.heads, tokens, -1).swapaxes(0, 1).reshape(tokens, -1)


class _Part:
    """Tokens [start, start + tokens) of a sequence: where they are written, and what they see."""

    def __init__(self, page_size: int, table: PageTable, tokens: int) -> None:
        self.start, self.tokens = table.length, tokens
        self.written = token_spans(table, page_size, self.start, self.start + tokens)
        self._page_size, self._table = page_size, table
        self._visible: dict[int | None, Visible] = {}
        self._angles: Angles | None = None

    def angles(self, rope: Rope) -> Angles:
        """Of its tokens, on the host; equal in all layers."""
        if self._angles is None:
            self._angles = rope.angles(range(self.start, self.start + self.tokens))
        return self._angles

    @property
    def form(self) -> StepForm:
        seen = [
            (window or 0, len(visible.spans), _mask_kind(visible.mask))
            for window, visible in self._visible.items()
        ]
        return ((self.tokens, len(self.written)), *seen)

    def sees(self, window: int | None) -> Visible:
        """In layers with that window."""
        if window not in self._visible:
            self._visible[window] = self._see(window)
        return self._visible[window]

    def spans(self, window: int | None) -> list[Span]:
        """The slots of what it sees in layers with that window."""
        first = first_seen(self.start, window)
        return token_spans(self._table, self._page_size, first, self.start + self.tokens)

    def _see(self, window: int | None) -> Visible:
        spans = self.spans(window)
        if self.tokens == 1:
            return Visible(spans, None)
        end = self.start + self.tokens
        return Visible(spans, causal_mask(self.start, end, first_seen(self.start, window), window))


def _mask_kind(mask: mx.array | str | None) -> int:
    return 0 if mask is None else 1 if isinstance(mask, str) else 2


def causal_mask(begin: int, end: int, first: int, window: int | None) -> mx.array | str:
    """The mask of queries at positions begin … end-1 over keys first … end-1, for MLX's attention."""
    if window is None or end - first <= window:
        return "causal"
    queries = mx.arange(begin, end)[:, None]
    keys = mx.arange(first, end)[None]
    return (keys <= queries) & (keys > queries - window)
