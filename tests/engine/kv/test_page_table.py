"""Where a table's tokens lie: spans of slots, against the plain map from tokens to slots."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.page_table import NO_PAGE, PageTable, Span, page_spans, token_spans

SIZE = 4


@given(st.permutations(range(8)), st.integers(1, 5), st.integers(0, 32), st.integers(0, 32))
def test_every_token_is_in_its_slot_and_neighbours_are_one_span(
    pages: list[int], size: int, begin: int, end: int
) -> None:
    end = min(end, len(pages) * size)
    spans = token_spans(PageTable(pages), size, begin, end)
    slots = [pages[token // size] * size + token % size for token in range(begin, end)]
    assert [slot for span in spans for slot in range(span.begin, span.end)] == slots
    jumps = sum(after != before + 1 for before, after in pairwise(slots))
    assert len(spans) == (jumps + 1 if slots else 0)


@given(st.permutations(range(8)), st.integers(1, 8))
def test_the_slots_of_pages_are_those_of_all_their_tokens(pages: list[int], count: int) -> None:
    table = PageTable(pages[:count])
    assert page_spans(table.pages, SIZE) == token_spans(table, SIZE, 0, count * SIZE)


@pytest.mark.parametrize("begin", [0, 3, 7])
def test_a_token_that_was_given_back_is_in_no_page(begin: int) -> None:
    table = PageTable([NO_PAGE, NO_PAGE, 5, 6], 16)
    with pytest.raises(ValueError, match=f"token {begin} is in no page"):
        token_spans(table, SIZE, begin, 16)
    assert token_spans(table, SIZE, 8, 16) == [Span(20, 28)]


def test_a_token_behind_the_last_page_is_in_none() -> None:
    table = PageTable([0, 1, 2], 12)
    assert token_spans(table, SIZE, 2, 12) == [Span(2, 12)]
    with pytest.raises(ValueError, match="token 12 is in no page"):
        token_spans(table, SIZE, 2, 13)
    with pytest.raises(ValueError, match="token 6 is in no page"):
        token_spans(PageTable([0, NO_PAGE, 2], 12), SIZE, 6, 12)
    with pytest.raises(ValueError, match="token 4 is in no page"):
        token_spans(PageTable([0, NO_PAGE, 2], 12), SIZE, 2, 12)
