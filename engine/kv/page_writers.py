"""Pages on their way into the arena: the host's memory where they belong, for several threads at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.kv.page_data import TOKEN_AXIS, Array, PageMemory
from engine.kv.pager import Span


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


class HostWriter:
    """Gives the pools' own memory, where the host has it."""

    def __init__(self, pools: Mapping[str, Sequence[Array]], pages: Sequence[int], page_size: int) -> None:
        """`pools`: writable views by name, (kv_heads, slots, width) of each layer, row-contiguous."""
        self._planes = {name: _Plane.of(arrays) for name, arrays in pools.items()}
        self._pages, self._page_size = pages, page_size

    def memory(self, first: int, pages: int) -> PageMemory:
        """See PageWriter."""
        spans = page_spans(self._pages[first : first + pages], self._page_size)
        return {name: plane.parts(spans) for name, plane in self._planes.items()}

    def finish(self, pages: int) -> None:
        """See PageWriter."""


class StagedWriter:
    """Gives memory of its own, what is in which is stored all at once, for a device."""

    def __init__(
        self,
        planes: Mapping[str, Array],
        pages: Sequence[int],
        page_size: int,
        store: Callable[[Mapping[str, Array], Sequence[Span]], None],
    ) -> None:
        """
        Args:
            planes: by name, an array like those of one token: (layers, kv_heads, 1, width).
            store: gets arrays (layers, kv_heads, tokens, width), and the slots of the tokens.
        """
        self._pages, self._page_size, self._store = pages, page_size, store
        self._arrays = {
            name: np.empty((*one.shape[:TOKEN_AXIS], len(pages) * page_size, one.shape[-1]), one.dtype)
            for name, one in planes.items()
        }
        staged = {name: list(array) for name, array in self._arrays.items()}
        self.memory = HostWriter(staged, range(len(pages)), page_size).memory

    def finish(self, pages: int) -> None:
        """See PageWriter."""
        tokens = pages * self._page_size
        arrays = {name: array[:, :, :tokens] for name, array in self._arrays.items()}
        self._store(arrays, page_spans(self._pages[:pages], self._page_size))


def page_spans(pages: Sequence[int], page_size: int) -> list[Span]:
    """The slots of `pages`, in their order, neighbours merged."""
    breaks = [index for index in range(1, len(pages)) if pages[index] != pages[index - 1] + 1]
    rows = zip([0, *breaks], [*breaks, len(pages)], strict=True) if pages else ()
    return [Span(pages[first] * page_size, (pages[end - 1] + 1) * page_size) for first, end in rows]
