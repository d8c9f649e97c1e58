"""The arena: per layer one array of keys and one of values, cut into fixed pages, read and written by slot.

Layout: (kv_heads, slots, head_dim), slot = page * page_size + offset. A head's consecutive slots are
contiguous, so that a sequence whose pages are neighbours is read as a strided view, without a copy.

Two sets of operations work on it, never both at once. The functional set is `write` and `read`: a write is an
MLX op that yields a new pool, which reuses the old buffer because nothing else holds it. That is true only
while each step is evaluated before the next one is built; a step in flight would make MLX copy the whole
pool. The in-place set (engine/kv/in_place.py) gets the arrays themselves, as `pools`, with their fences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.kv.pager import Span
from metal.decode_attention import FENCE


@dataclass(frozen=True, slots=True)
class ArenaPools:
    """Of every layer: keys and values (kv_heads, slots, head_dim), and the last fence (8,).

    A fence is yielded by each kernel that touches a layer's pools and taken by the next: it is all that MLX
    knows of their order.
    """

    keys: list[mx.array]
    values: list[mx.array]
    fences: list[mx.array]


class Arena:
    """Keys and values of all layers.

    It starts empty and grows, by at least doubling, to the pages that are really used: the budget is a limit,
    not a grab.
    """

    def __init__(self, layers: int, kv_heads: int, head_dim: int, page_size: int, dtype: mx.Dtype) -> None:
        self.page_size = page_size
        self._shape = (kv_heads, head_dim)
        self._dtype = dtype
        self._pages = 0
        self._keys = [self._pool(0) for _ in range(layers)]
        self._values = [self._pool(0) for _ in range(layers)]
        self._fences = [mx.zeros(FENCE, mx.int32) for _ in range(layers)]

    @property
    def pages(self) -> int:
        """Pages that the arrays hold now."""
        return self._pages

    @property
    def page_bytes(self) -> int:
        """Bytes of one page: all layers, keys and values."""
        kv_heads, head_dim = self._shape
        return 2 * len(self._keys) * kv_heads * head_dim * self.page_size * self._dtype.size

    @property
    def pools(self) -> ArenaPools:
        """The arrays themselves, for kernels; whoever launches one puts the next fence into its place."""
        return ArenaPools(self._keys, self._values, self._fences)

    def synchronize(self) -> None:
        """Wait for every launch that touches a pool: after this, anything may."""
        mx.eval(self._fences)

    def reserve(self, pages: int, limit: int) -> None:
        """Make room for `pages` pages, at most `limit`; what is stored stays."""
        if pages <= self._pages:
            return
        self.synchronize()
        self._pages = min(limit, max(pages, 2 * self._pages, 1024 // self.page_size))
        for pools in (self._keys, self._values):
            for layer, old in enumerate(pools):
                grown = self._pool(self._pages)
                grown[:, : old.shape[1]] = old
                pools[layer] = grown
                mx.eval(grown)

    def release(self) -> None:
        """Free all arrays; what was stored is gone. The next reserve builds them anew."""
        self._pages = 0
        self._fences[:] = [mx.zeros(FENCE, mx.int32) for _ in self._fences]
        for pools in (self._keys, self._values):
            pools[:] = [self._pool(0) for _ in pools]

    def write(self, layer: int, keys: mx.array, values: mx.array, spans: Sequence[Span]) -> None:
        """Store (kv_heads, tokens, head_dim) keys and values in the slots of `spans`, in order."""
        begin = 0
        for span in spans:
            end = begin + span.length
            self._keys[layer][:, span.begin : span.end] = keys[:, begin:end]
            self._values[layer][:, span.begin : span.end] = values[:, begin:end]
            begin = end

    def read(self, layer: int, spans: Sequence[Span]) -> tuple[mx.array, mx.array]:
        """Keys and values of `spans`, each (kv_heads, tokens, head_dim): a view of one, a copy of more."""
        return self._gather(self._keys[layer], spans), self._gather(self._values[layer], spans)

    def state(self) -> list[mx.array]:
        """Every array, for evaluating what was written."""
        return [*self._keys, *self._values, *self._fences]

    def _pool(self, pages: int) -> mx.array:
        kv_heads, head_dim = self._shape
        return mx.zeros((kv_heads, pages * self.page_size, head_dim), dtype=self._dtype)

    @staticmethod
    def _gather(pool: mx.array, spans: Sequence[Span]) -> mx.array:
        views = [pool[:, span.begin : span.end] for span in spans]
        return views[0] if len(views) == 1 else mx.concatenate(views, axis=1)
