"""One forward pass over one sequence: where its keys and values go, and attention over its pages.

This is the functional set: MLX's built-in attention on what the arena gives, and writes that yield new pools.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from engine.kv.arena import Arena
from engine.kv.pager import Pager, PageTable, Span
from engine.layers.attention import AttentionLayer

MOST_FOLDED = 8
"""Most query rows for which MLX's GPU attention has a kernel for short queries."""


StepForm = tuple[tuple[int, ...], ...]
"""What a step's operations hang on but the model: equal forms launch the same ones."""


@dataclass(frozen=True, slots=True)
class Visible:
    """What a step's tokens see in a layer: the keys' slots, and a mask where causality is not enough."""

    spans: list[Span]
    mask: mx.array | str | None


class FunctionalStep:
    """Tokens [start, start + tokens) of `table`, whose pages must exist already."""

    def __init__(self, arena: Arena, pager: Pager, table: PageTable, tokens: int) -> None:
        self.start = table.length
        self._arena = arena
        self._pager = pager
        self._table = table
        self._end = table.length + tokens
        self._written = pager.spans(table, self.start, self._end)
        self._visible: dict[int | None, Visible] = {}

    @property
    def form(self) -> StepForm:
        """The form of the step, when it was built for all layers."""
        seen = [
            (window or 0, len(visible.spans), _mask_kind(visible.mask))
            for window, visible in self._visible.items()
        ]
        return ((self._end - self.start, len(self._written)), *seen)

    def __call__(self, layer: AttentionLayer, qkv: mx.array) -> mx.array:
        """See Attend. A token at position p sees positions max(0, p - window + 1) … p, or all of 0 … p."""
        shape, tokens = layer.shape, qkv.shape[0]
        q, k, v = self._heads(layer, qkv)
        self._arena.write(layer.index, k[0], v[0], self._written)
        if shape.window not in self._visible:
            self._visible[shape.window] = self._see(shape.window)
        visible = self._visible[shape.window]
        keys, values = self._arena.read(layer.index, visible.spans)
        if visible.mask is None and shape.group <= MOST_FOLDED:
            # The heads of a group become rows of one query: a CPU then reads keys and values once.
            q = q.reshape(1, shape.kv_heads, shape.group, -1)
        out = mx.fast.scaled_dot_product_attention(
            q, keys[None], values[None], scale=shape.scale, mask=visible.mask
        )
        return out.reshape(shape.heads, tokens, -1).swapaxes(0, 1).reshape(tokens, -1)

    def _heads(self, layer: AttentionLayer, qkv: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        """Normed and rotated q (1, heads, tokens, head_dim), k and v (1, kv_heads, tokens, head_dim)."""
        shape = layer.shape
        heads = qkv.reshape(1, qkv.shape[0], -1, shape.head_dim)
        q, k, v = mx.split(heads, [shape.heads, shape.heads + shape.kv_heads], axis=2)
        if layer.norms is not None and shape.norm_epsilon is not None:
            q = mx.fast.rms_norm(q, layer.norms.query, shape.norm_epsilon)
            k = mx.fast.rms_norm(k, layer.norms.key, shape.norm_epsilon)
        q = layer.rope(q.swapaxes(1, 2), self.start)
        k = layer.rope(k.swapaxes(1, 2), self.start)
        return q, k, v.swapaxes(1, 2)

    def _see(self, window: int | None) -> Visible:
        first = 0 if window is None else max(0, self.start - window + 1)
        spans = self._pager.spans(self._table, first, self._end)
        if self._end - self.start == 1:
            return Visible(spans, None)
        return Visible(spans, causal_mask(self.start, self._end, first, window))


def _mask_kind(mask: mx.array | str | None) -> int:
    return 0 if mask is None else 1 if isinstance(mask, str) else 2


def causal_mask(begin: int, end: int, first: int, window: int | None) -> mx.array | str:
    """The mask of queries at positions begin … end-1 over keys first … end-1, for MLX's attention."""
    if window is None or end - first <= window:
        return "causal"
    queries = mx.arange(begin, end)[:, None]
    keys = mx.arange(first, end)[None]
    return (keys <= queries) & (keys > queries - window)
