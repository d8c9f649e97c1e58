"""What it takes to write pages where a device fetches them from, where it has memory of its own; at rest."""

from __future__ import annotations

import time
from collections.abc import Iterator

import mlx.core as mx

from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel

PAGES = 8, 64
"""That are written and fetched: short prompts' and a long one's, as to fetch any at all costs most."""

_LEAST_S = 1e-6
"""What fetching takes where it cannot be told from reading once more."""


def fetch_costs(model: LoadedModel) -> Iterator[tuple[int, float, float]]:
    """By tokens: seconds that the host takes to write as many in pages, and a device to fetch them.

    That is what its first read of them takes beyond the next. Nothing where so many pages are not free.
    """
    table, size = PageTable(), model.pager.page_size
    if model.pager.free_pages < PAGES[-1]:
        return
    try:
        model.memory.grow(table, PAGES[-1] * size)
        for count in PAGES:
            pages = table.pages[:count]
            _costs(model, pages)  # compiles what reads them
            writing, fetching = _costs(model, pages)
            yield count * size, writing, fetching
    finally:
        model.memory.free(table)


def _costs(model: LoadedModel, pages: list[int]) -> tuple[float, float]:
    writing = _writing(model, pages)
    return writing, max(_reading(model, pages) - _reading(model, pages), _LEAST_S)


def _writing(model: LoadedModel, pages: list[int]) -> float:
    began = time.perf_counter()
    for parts in model.arena.memory(pages)(0, len(pages)).values():
        for part in parts:
            part[:] = bytes(part.nbytes)
    return time.perf_counter() - began


def _reading(model: LoadedModel, pages: list[int]) -> float:
    began = time.perf_counter()
    mx.eval([mx.sum(part) for parts in model.arena.gathered(pages).values() for part in parts])
    return time.perf_counter() - began
