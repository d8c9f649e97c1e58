"""Random growth, sharing, copies and returns of pages, against a plain model of who holds which."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.kv.page_table import NO_PAGE, PageTable, token_spans
from engine.kv.pager import OutOfPages, Pager

PAGES, SIZE = 12, 4


class PagerMachine(RuleBasedStateMachine):
    """Random growth, forks, sharing with a tree, release and free of a few tables.

    Every write has a number of its own; a table must always find its own numbers again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pager = Pager(PAGES, SIZE)
        self.tables = [PageTable() for _ in range(4)]
        self.written: list[list[int]] = [[] for _ in range(4)]
        self.first = [0] * 4
        self.slots = [0] * (PAGES * SIZE)
        self.cached: set[int] = set()
        self.writes = 0
        self.total = PAGES

    @rule(which=st.integers(0, 3), more=st.integers(1, 20))
    def write(self, which: int, more: int) -> None:
        table, wanted = self.tables[which], len(self.written[which]) + more
        before = (list(table.pages), self.held())
        try:
            copied = self.pager.grow(table, wanted)
        except OutOfPages:
            last = table.pages[table.length // SIZE :][:1]
            taken = -(-wanted // SIZE) - len(table.pages) + sum(self.held()[page] > 1 for page in last)
            assert taken > self.held()[: self.total].count(0)
            assert (table.pages, self.held()) == before
            return
        if copied is not None:
            source, target = copied.source * SIZE, copied.target * SIZE
            self.slots[target : target + SIZE] = self.slots[source : source + SIZE]
        for token in range(table.length, wanted):
            self.writes += 1
            self.slots[table.pages[token // SIZE] * SIZE + token % SIZE] = self.writes
            self.written[which].append(self.writes)
        table.length = wanted

    @rule(one=st.integers(0, 3), other=st.integers(0, 3))
    def fork(self, one: int, other: int) -> None:
        if one != other:
            self.pager.free(self.tables[other])
            self.tables[other] = self.pager.fork(self.tables[one])
            self.written[other] = list(self.written[one])
            self.first[other] = self.first[one]

    @rule(which=st.integers(0, 3), share=st.floats(0, 1))
    def release(self, which: int, share: float) -> None:
        token = int(len(self.written[which]) * share)
        self.pager.release_before(self.tables[which], token)
        self.first[which] = max(self.first[which], token // SIZE * SIZE)

    @rule(which=st.integers(0, 3), share=st.floats(0, 1))
    def shrink(self, which: int, share: float) -> None:
        tokens = max(self.first[which], int(len(self.written[which]) * share))
        self.pager.shrink(self.tables[which], tokens)
        del self.written[which][tokens:]

    @rule(page=st.integers(0, PAGES - 1))
    def cache(self, page: int) -> None:
        if page in self.cached:
            self.pager.uncache(page)
            self.cached.discard(page)
        elif self.held()[page]:
            self.pager.cache([page])
            self.cached.add(page)

    @precondition(lambda self: any(self.written))
    @rule(which=st.integers(0, 3))
    def free(self, which: int) -> None:
        self.pager.free(self.tables[which])
        self.written[which], self.first[which] = [], 0

    @rule(pages=st.integers(1, PAGES))
    def limit(self, pages: int) -> None:
        if any(self.held()[pages:]):
            with pytest.raises(ValueError, match="held"):
                self.pager.limit(pages)
        else:
            self.pager.limit(pages)
            self.total = pages

    def held(self) -> list[int]:
        """How many hold each page."""
        pages = [page for table in self.tables for page in table.pages] + list(self.cached)
        return [pages.count(page) for page in range(PAGES)]

    @invariant()
    def every_page_is_counted(self) -> None:
        held = self.held()
        assert [self.pager.references(page) for page in range(PAGES)] == held
        assert not any(held[self.total :])
        assert self.pager.free_pages == held[: self.total].count(0)
        assert set(self.pager.idle_pages) == {page for page in self.cached if held[page] == 1}
        for table in self.tables:
            assert self.pager.uncached(table) == {*table.pages} - self.cached - {NO_PAGE}
        assert self.pager.pages_used == PAGES - held.count(0) - len(self.pager.idle_pages)
        highest = max((page for page in range(PAGES) if held[page]), default=-1)
        assert highest < self.pager.high_water <= self.total
        self.pager.check(self.tables)

    @invariant()
    def a_table_has_room_where_it_alone_holds_the_page_of_its_next_token(self) -> None:
        held, without = self.held(), self.pager.without_room(self.tables)
        for place, table in enumerate(self.tables):
            page = [page for page in table.pages[table.length // SIZE :][:1] if held[page] == 1]
            assert (place in without) == (not page)

    @invariant()
    def every_token_is_where_it_was_written(self) -> None:
        for table, first, written in zip(self.tables, self.first, self.written, strict=True):
            spans = token_spans(table, SIZE, first, len(written))
            slots = [slot for span in spans for slot in range(span.begin, span.end)]
            assert [self.slots[slot] for slot in slots] == written[first:]
            assert all(left.end != right.begin for left, right in pairwise(spans))


TestPagerMachine = PagerMachine.TestCase
TestPagerMachine.settings = settings(max_examples=60, stateful_step_count=40)
