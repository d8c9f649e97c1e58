"""The pager against a plain model: a set of free pages and a dict of owners."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.kv.pager import NO_PAGE, OutOfPages, Pager, PageTable, Span

PAGES, SIZE = 12, 4


def test_a_lone_table_is_one_span() -> None:
    pager, table = Pager(PAGES, SIZE), PageTable()
    for tokens in range(1, 30):
        pager.grow(table, tokens)
    assert pager.spans(table, 3, 29) == [Span(3, 29)]


def test_two_tables_growing_in_turn_keep_their_own_tokens() -> None:
    pager, first, second = Pager(PAGES, SIZE), PageTable(), PageTable()
    for tokens in (4, 8, 12):
        pager.grow(first, tokens)
        pager.grow(second, tokens)
    slots = [
        {slot for span in pager.spans(table, 0, 12) for slot in range(span.begin, span.end)}
        for table in (first, second)
    ]
    assert len(slots[0]) == len(slots[1]) == 12
    assert not slots[0] & slots[1]


def test_growth_that_does_not_fit_allocates_nothing() -> None:
    pager, table = Pager(PAGES, SIZE), PageTable()
    with pytest.raises(OutOfPages, match="13 more pages are needed and 12 of 12 are free"):
        pager.grow(table, PAGES * SIZE + 1)
    assert pager.pages_used == 0
    assert table.pages == []


def test_released_tokens_are_in_no_page() -> None:
    pager, table = Pager(PAGES, SIZE), PageTable()
    pager.grow(table, 16)
    pager.release_before(table, 7)
    assert table.pages[0] == NO_PAGE
    assert pager.spans(table, 4, 16) == [Span(4, 16)]
    with pytest.raises(ValueError, match="token 3 is in no page"):
        pager.spans(table, 3, 16)


def test_a_pager_without_pages_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one page"):
        Pager(0, SIZE)


class PagerMachine(RuleBasedStateMachine):
    """Random growth, release and free of a few tables."""

    def __init__(self) -> None:
        super().__init__()
        self.pager = Pager(PAGES, SIZE)
        self.tables = [PageTable() for _ in range(4)]
        self.tokens = [0] * 4
        self.first = [0] * 4

    @rule(which=st.integers(0, 3), more=st.integers(1, 20))
    def grow(self, which: int, more: int) -> None:
        table, wanted = self.tables[which], self.tokens[which] + more
        missing = -(-wanted // SIZE) - len(table.pages)
        if missing > PAGES - self.owned():
            with pytest.raises(OutOfPages):
                self.pager.grow(table, wanted)
        else:
            self.pager.grow(table, wanted)
            self.tokens[which] = wanted

    @rule(which=st.integers(0, 3), share=st.floats(0, 1))
    def release(self, which: int, share: float) -> None:
        token = int(self.tokens[which] * share)
        self.pager.release_before(self.tables[which], token)
        self.first[which] = max(self.first[which], token // SIZE * SIZE)

    @precondition(lambda self: any(self.tokens))
    @rule(which=st.integers(0, 3))
    def free(self, which: int) -> None:
        self.pager.free(self.tables[which])
        self.tokens[which] = self.first[which] = 0

    def owned(self) -> int:
        return sum(page != NO_PAGE for table in self.tables for page in table.pages)

    @invariant()
    def every_page_has_one_owner_and_every_token_one_slot(self) -> None:
        pages = [page for table in self.tables for page in table.pages if page != NO_PAGE]
        assert len(pages) == len(set(pages)) == self.pager.pages_used
        for table, first, tokens in zip(self.tables, self.first, self.tokens, strict=True):
            spans = self.pager.spans(table, first, tokens)
            slots = [slot for span in spans for slot in range(span.begin, span.end)]
            assert slots == [table.pages[t // SIZE] * SIZE + t % SIZE for t in range(first, tokens)]


TestPagerMachine = PagerMachine.TestCase
TestPagerMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
