"""The pager against a plain model: a set of free pages and a dict of owners."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.kv.page_table import NO_PAGE, PageCopy, PageTable, Span, token_spans
from engine.kv.pager import OutOfPages, Pager

PAGES, SIZE = 12, 4


def test_a_lone_table_is_one_span() -> None:
    pager, table = Pager(PAGES, SIZE), PageTable()
    for tokens in range(1, 30):
        pager.grow(table, tokens)
    assert token_spans(table, SIZE, 3, 29) == [Span(3, 29)]


def test_two_tables_growing_in_turn_keep_their_own_tokens() -> None:
    pager, first, second = Pager(PAGES, SIZE), PageTable(), PageTable()
    for tokens in (4, 8, 12):
        pager.grow(first, tokens)
        pager.grow(second, tokens)
    slots = [
        {slot for span in token_spans(table, SIZE, 0, 12) for slot in range(span.begin, span.end)}
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
    assert token_spans(table, SIZE, 4, 16) == [Span(4, 16)]
    with pytest.raises(ValueError, match="token 3 is in no page"):
        token_spans(table, SIZE, 3, 16)


@pytest.mark.parametrize(("pages", "size"), [(0, SIZE), (PAGES, 0)])
def test_a_pager_without_pages_or_tokens_is_refused(pages: int, size: int) -> None:
    with pytest.raises(ValueError, match="at least one page"):
        Pager(pages, size)


def test_the_smallest_pager_holds_a_token() -> None:
    assert grown(Pager(1, 1), 1).pages == [0]


def grown(pager: Pager, tokens: int) -> PageTable:
    table = PageTable()
    pager.grow(table, tokens)
    table.length = tokens
    return table


def test_a_fork_shares_all_pages_and_copies_only_the_last_when_it_writes() -> None:
    pager = Pager(PAGES, SIZE)
    first = grown(pager, 10)
    first.chat = "a"
    second = pager.fork(first)
    assert (second, pager.free_pages) == (first, PAGES - 3)
    assert pager.grow(second, 11) == PageCopy(source=2, target=3)
    assert (first.pages, second.pages) == ([0, 1, 2], [0, 1, 3])
    assert pager.grow(first, 11) is None  # nobody else holds its last page any more
    assert [pager.references(page) for page in range(5)] == [2, 2, 1, 1, 0]


def test_tokens_that_are_there_need_no_page_whoever_else_holds_theirs() -> None:
    pager = Pager(PAGES, SIZE)
    table = pager.fork(grown(pager, 6))
    for tokens in (0, 4, 5, 6):
        assert pager.missing(table, tokens) == 0
        assert pager.grow(table, tokens) is None
    assert table.pages == [0, 1]


def test_pages_made_ready_do_not_stand_for_the_copy_that_the_next_token_needs() -> None:
    pager = Pager(PAGES, SIZE)
    first = grown(pager, 6)
    pager.grow(first, 16)
    pager.fork(first)
    assert pager.missing(first, 7) == 1
    assert pager.grow(first, 7) == PageCopy(source=1, target=4)
    assert first.pages == [0, 4, 2, 3]


def test_a_prompt_goes_where_it_fits_in_one_piece() -> None:
    pager = Pager(PAGES, SIZE)
    tables = [grown(pager, pages * SIZE) for pages in (1, 2, 1, 3, 1)]
    for hole in (tables[1], tables[3]):
        pager.free(hole)
    assert grown(pager, 3 * SIZE).pages == [4, 5, 6]
    assert grown(pager, 4 * SIZE).pages == [8, 9, 10, 11]
    assert grown(pager, 2 * SIZE).pages == [1, 2]


def test_a_prompt_leaves_a_first_page_alone_where_it_does_not_fit() -> None:
    pager = Pager(PAGES, SIZE)
    low, _ = grown(pager, SIZE), grown(pager, SIZE)
    pager.free(low)
    assert grown(pager, 2 * SIZE).pages == [2, 3]


def test_a_prompt_that_fits_nowhere_in_one_piece_is_cut_into_few() -> None:
    pager = Pager(6, SIZE)
    tables = [grown(pager, SIZE) for _ in range(6)]
    for page in (0, 2, 4, 5):
        pager.free(tables[page])
    assert grown(pager, 3 * SIZE).pages == [0, 4, 5]


def test_a_fork_at_the_end_of_a_page_copies_nothing() -> None:
    pager = Pager(PAGES, SIZE)
    second = pager.fork(grown(pager, 8))
    assert pager.grow(second, 9) is None
    assert second.pages == [0, 1, 2]


def test_pages_that_were_made_ready_are_not_shared_with_a_fork() -> None:
    pager = Pager(PAGES, SIZE)
    first = grown(pager, 8)
    pager.grow(first, 12)
    assert pager.fork(first).pages == [0, 1]


def test_a_sequence_that_was_cut_back_writes_no_page_that_others_hold() -> None:
    pager = Pager(PAGES, SIZE)
    first = grown(pager, 12)
    second = pager.fork(first)
    second.length = 4
    assert pager.grow(second, 12) is None  # what is in the two pages is not its own any more: nothing to copy
    assert (first.pages, second.pages) == ([0, 1, 2], [0, 3, 4])


def test_of_a_sequence_that_was_cut_back_inside_a_page_that_page_is_copied() -> None:
    pager = Pager(PAGES, SIZE)
    second = pager.fork(grown(pager, 12))
    second.length = 5
    assert pager.grow(second, 12) == PageCopy(source=1, target=3)
    assert second.pages == [0, 3, 4]


def test_a_copy_that_does_not_fit_changes_nothing() -> None:
    pager = Pager(3, SIZE)
    first = grown(pager, 10)
    second = pager.fork(first)
    with pytest.raises(OutOfPages, match="1 more pages are needed and 0 of 3 are free"):
        pager.grow(second, 11)
    assert (second.pages, pager.references(2)) == ([0, 1, 2], 2)


def test_shrinking_gives_back_what_is_behind() -> None:
    pager = Pager(PAGES, SIZE)
    table = grown(pager, 12)
    pager.shrink(table, 5)
    assert (table.pages, table.length, pager.free_pages) == ([0, 1], 5, PAGES - 2)


def test_a_page_that_only_the_tree_holds_is_idle_and_not_used() -> None:
    pager = Pager(PAGES, SIZE)
    table = grown(pager, 8)
    pager.cache([0])
    assert (set(pager.idle_pages), pager.pages_used) == (set(), 2)
    pager.free(table)
    assert (set(pager.idle_pages), pager.pages_used, pager.free_pages) == ({0}, 0, PAGES - 1)
    table = pager.share([0], 4, "a")
    assert table == PageTable([0], 4, chat="a")
    assert (set(pager.idle_pages), pager.pages_used) == (set(), 1)
    pager.free(table)
    pager.uncache(0)
    assert pager.free_pages == PAGES


def test_the_high_water_mark_is_lowered_to_what_is_held() -> None:
    pager = Pager(PAGES, SIZE)
    assert pager.high_water == 0
    low, high = grown(pager, 8), grown(pager, 16)
    pager.free(high)
    assert pager.high_water == 6
    pager.lower_high_water()
    assert pager.high_water == 2
    pager.shrink(low, 4)
    pager.lower_high_water()
    assert pager.high_water == 1
    pager.free(low)
    pager.lower_high_water()
    assert pager.high_water == 0


def test_pages_beyond_a_limit_are_not_handed_out_and_come_back_with_it() -> None:
    pager, table = Pager(PAGES, SIZE), PageTable()
    pager.limit(3)
    assert (pager.total_pages, pager.free_pages, pager.built_pages) == (3, 3, PAGES)
    pager.grow(table, 3 * SIZE)
    with pytest.raises(OutOfPages, match="1 more pages are needed and 0 of 3 are free"):
        pager.grow(table, 3 * SIZE + 1)
    pager.limit(5)
    pager.grow(table, 5 * SIZE)
    assert table.pages == [0, 1, 2, 3, 4]
    pager.check([table])


@pytest.mark.parametrize("pages", [0, 4, PAGES + 1])
def test_a_limit_that_cannot_be_is_refused(pages: int) -> None:
    pager = Pager(PAGES, SIZE)
    table = grown(pager, 5 * SIZE)
    with pytest.raises(ValueError, match="held" if pages == 4 else "cannot have"):
        pager.limit(pages)
    assert (pager.total_pages, pager.free_pages) == (PAGES, PAGES - 5)
    pager.check([table])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda pager: pager.release([0]), "page 0 was given back twice"),
        (lambda pager: pager.retain([0]), "page 0 is free"),
        (lambda pager: pager.uncache(0), "page 0 is not in the prefix tree"),
    ],
)
def test_a_page_that_nobody_holds_cannot_be_used(wrong: Callable[[Pager], None], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        wrong(Pager(PAGES, SIZE))


def test_a_page_is_in_the_tree_once() -> None:
    pager = Pager(PAGES, SIZE)
    grown(pager, SIZE)
    pager.cache([0])
    with pytest.raises(AssertionError, match="page 0 is in the prefix tree twice"):
        pager.cache([0])


def test_a_page_that_is_still_read_is_not_exchanged() -> None:
    pager = Pager(PAGES, SIZE)
    table, _ = grown(pager, SIZE), grown(pager, SIZE)
    table.is_read = True
    pager.swap(table, 0, 1)
    assert (table.pages, pager.references(0), pager.references(1)) == ([0], 1, 1)
    table.is_read = False
    pager.swap(table, 0, 1)
    assert (table.pages, pager.references(0), pager.references(1)) == ([1], 0, 2)


def test_the_check_names_a_page_that_is_counted_wrongly() -> None:
    pager = Pager(PAGES, SIZE)
    grown(pager, 8)
    with pytest.raises(AssertionError, match="page 0 has 0 holders and is counted 1 times"):
        pager.check([])


def _give_away(pager: Pager) -> None:
    vars(pager)["_is_free"][1] = 0


def _miscount_free(pager: Pager) -> None:
    vars(pager)["_free_pages"] -= 1


def _lose_idle(pager: Pager) -> None:
    vars(pager)["_idle"].clear()


@pytest.mark.parametrize(
    ("harm", "told"), [(_give_away, "free pages"), (_miscount_free, "free pages"), (_lose_idle, "idle pages")]
)
def test_the_check_tells_of_lists_that_are_wrong(harm: Callable[[Pager], None], told: str) -> None:
    pager = Pager(PAGES, SIZE)
    table = grown(pager, SIZE)
    pager.cache([0])
    pager.free(table)
    pager.check([])
    harm(pager)
    with pytest.raises(AssertionError, match=told):
        pager.check([])
