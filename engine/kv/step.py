"""One forward pass over one sequence: where its keys and values go, and attention over its pages.

This is the reference executor: MLX's built-in attention on what the arena gives.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from engine.kv.arena import Arena
from engine.kv.pager import Pager, PageTable, Span

MOST_FOLDED = 8
"""Most query rows for which MLX's GPU attention has a kernel for short queries."""


@dataclass(frozen=True, slots=True)
class Visible:
    """What a step's tokens see in a layer: the keys' slots, and a mask where causality is not enough."""

    spans: list[Span]
    mask: mx.array | str | None


class KVStep:
    """Tokens [start, start + tokens) of `table`, whose pages must exist already."""

    def __init__(self, arena: Arena, pager: Pager, table: PageTable, tokens: int) -> None:
        self.start = table.length
        self._arena = arena
        self._pager = pager
        self._table = table
        self._end = table.length + tokens
        self._written = pager.spans(table, self.start, self._end)
        self._visible: dict[int | None, Visible] = {}

    def attend(
        self, layer: int, q: mx.array, k: mx.array, v: mx.array, scale: float, window: int | None
    ) -> mx.array:
        """Write k and v (1, kv_heads, tokens, head_dim) to pages; attend from q (1, heads, tokens, head_dim).

        A token at position p sees positions max(0, p - window + 1) … p; window None sees all of 0 … p.
        Returns (1, heads, tokens, head_dim).
        """
        self._arena.write(layer, k[0], v[0], self._written)
        if window not in self._visible:
            self._visible[window] = self._see(window)
        visible = self._visible[window]
        keys, values = self._arena.read(layer, visible.spans)
        heads, group = q.shape[1], q.shape[1] // k.shape[1]
        if visible.mask is None and group <= MOST_FOLDED:
            # The heads of a group become rows of one query: a CPU then reads keys and values once.
            q = q.reshape(1, k.shape[1], group, -1)
        out = mx.fast.scaled_dot_product_attention(
            q, keys[None], values[None], scale=scale, mask=visible.mask
        )
        return out.reshape(1, heads, self._end - self.start, -1)

    def _see(self, window: int | None) -> Visible:
        first = 0 if window is None else max(0, self.start - window + 1)
        spans = self._pager.spans(self._table, first, self._end)
        if self._end - self.start == 1:
            return Visible(spans, None)
        if window is None or self._end - first <= window:
            return Visible(spans, "causal")
        queries = mx.arange(self.start, self._end)[:, None]
        keys = mx.arange(first, self._end)[None]
        return Visible(spans, (keys <= queries) & (keys > queries - window))
