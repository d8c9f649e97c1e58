"""What a device with memory of its own takes to fetch pages that the host has written; measured at rest."""

from __future__ import annotations

import time
from collections.abc import Iterator

from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel

PAGES = 8, 64
"""That are written and fetched: short prompts' and a long one's, as to fetch any at all costs most."""

_ROUNDS = 2
"""The last one counts: the first compiles what reads them."""

_LEAST_S = 1e-6
"""What fetching takes where it cannot be told from reading once more."""


def fetch_costs(model: LoadedModel) -> Iterator[tuple[int, float]]:
    """Bytes of pages, and seconds that the first read of them takes beyond the next; for when there is rest.

    Nothing where so many pages are not free.
    """
    table, size = PageTable(), model.pager.page_size
    if model.pager.free_pages < PAGES[-1]:
        return
    try:
        model.memory.grow(table, PAGES[-1] * size)
        for count in PAGES:
            pages = table.pages[:count]
            seconds = [_fetching(model, pages) for _ in range(_ROUNDS)]
            yield count * model.arena.page_bytes, max(seconds[-1], _LEAST_S)
    finally:
        model.memory.free(table)


def _fetching(model: LoadedModel, pages: list[int]) -> float:
    _write(model, pages)
    first, again = (_reading(model, pages) for _ in range(2))
    return first - again


def _write(model: LoadedModel, pages: list[int]) -> None:
    for parts in model.arena.memory(pages)(0, len(pages)).values():
        for part in parts:
            part[:] = bytes(part.nbytes)


def _reading(model: LoadedModel, pages: list[int]) -> float:
    began = time.perf_counter()
    model.arena.touch(pages)
    return time.perf_counter() - began
