"""The arena's own memory, where pages that come back belong: for several threads at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.kv.page_data import Array, PageMemory
from engine.kv.page_table import Span, page_spans


@dataclass(frozen=True, slots=True)
class _Plane:
    """One of the arrays that pages consist of, such as keys: the bytes of each layer's heads, in order."""

    heads: Sequence[memoryview]
    slot_bytes: int

    @classmethod
    def of(cls, pools: Sequence[Array]) -> _Plane:
        heads = [head.data.cast("B") for pool in pools for head in pool]
        return cls(heads, pools[0].shape[2] * pools[0].itemsize)

    def parts(self, spans: Sequence[Span]) -> list[memoryview]:
        """The bytes of `spans` in each head."""
        slices = [slice(span.begin * self.slot_bytes, span.end * self.slot_bytes) for span in spans]
        return [head[part] for head in self.heads for part in slices]


class PoolMemory:
    """Where some pages lie in pools: a MemoryOf."""

    def __init__(self, pools: Mapping[str, Sequence[Array]], pages: Sequence[int], page_size: int) -> None:
        """`pools`: writable views by name, (kv_heads, slots, width) of each layer, row-contiguous."""
        self._planes = {name: _Plane.of(arrays) for name, arrays in pools.items()}
        self._pages, self._page_size = pages, page_size

    def __call__(self, first: int, pages: int) -> PageMemory:
        """See MemoryOf."""
        spans = page_spans(self._pages[first : first + pages], self._page_size)
        return {name: plane.parts(spans) for name, plane in self._planes.items()}
