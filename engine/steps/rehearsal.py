"""Steps that nobody asked for: on one page, and nothing of them is counted."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel
from engine.runner import Runner


class Stage:
    """Makes tables of any length whose pages are all the same one: what steps come to means nothing."""

    def __init__(self, model: LoadedModel, page: int) -> None:
        self._model, self._page = model, page

    def table(self, length: int, more: int) -> PageTable:
        """Of `length` tokens, with room for `more`."""
        return PageTable([self._page] * self._model.pager.pages_for(length + more), length)


@contextmanager
def rehearsal(runner: Runner, model: LoadedModel) -> Generator[Stage]:
    """A stage for steps of `runner`, whose page is given back. Raises OutOfPages where there is not one."""
    before, steps, table = runner.launches.copy(), runner.tokens, PageTable()
    try:
        model.memory.grow(table, 1)
        yield Stage(model, table.pages[0])
    finally:
        model.memory.free(table)
        runner.launches.clear()
        runner.launches.update(before)
        runner.tokens = steps
