"""Pages on their way into the arena: pieces from several threads, in any order, into the host's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from engine.kv.page_data import TOKEN_AXIS, Array, PageData
from engine.kv.pager import Span


class HostWriter:
    """Writes into the pools' own memory, where the host has it."""

    def __init__(self, pools: Mapping[str, Sequence[Array]], pages: Sequence[int], page_size: int) -> None:
        """`pools`: writable views by name, (kv_heads, slots, width) of each layer."""
        self._pools, self._pages, self._page_size = pools, pages, page_size

    def put(self, first: int, data: PageData) -> None:
        """See PageWriter."""
        spans = page_spans(self._pages[first : first + data.pages], self._page_size)
        for name, pools in self._pools.items():
            for pool, rows in zip(pools, data.arrays[name], strict=True):
                begin = 0
                for span in spans:
                    pool[:, span.begin : span.end] = rows[:, begin : begin + span.length]
                    begin += span.length

    def finish(self, pages: int) -> None:
        """See PageWriter."""


class StagedWriter:
    """Collects pages in memory of its own and stores them all at once, for a device."""

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

    def put(self, first: int, data: PageData) -> None:
        """See PageWriter."""
        begin, end = first * self._page_size, (first + data.pages) * self._page_size
        for name, array in self._arrays.items():
            array[:, :, begin:end] = data.arrays[name]

    def finish(self, pages: int) -> None:
        """See PageWriter."""
        tokens = pages * self._page_size
        arrays = {name: array[:, :, :tokens] for name, array in self._arrays.items()}
        self._store(arrays, page_spans(self._pages[:pages], self._page_size))


def page_spans(pages: Sequence[int], page_size: int) -> list[Span]:
    """The slots of `pages`, in their order, neighbours merged."""
    spans: list[Span] = []
    for page in pages:
        begin = page * page_size
        if spans and spans[-1].end == begin:
            spans[-1] = Span(spans[-1].begin, begin + page_size)
        else:
            spans.append(Span(begin, begin + page_size))
    return spans
