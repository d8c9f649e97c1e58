"""What is found of a sequence in the prefix tree, to the token; with a window, what is still seen of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.audit import check_tree
from engine.kv.page_table import PageTable
from tests.engine.kv.grove import PAGES, SIZE, Grove


def test_whole_pages_are_found_and_the_rest_only_when_asked_for() -> None:
    grove = Grove()
    pages = grove.insert([*range(10)], whole=False).pages
    assert grove.matched([*range(10)]) == (8, pages[:2])
    assert grove.pager.free_pages == PAGES - 2
    pages += grove.insert([*range(10)]).pages[2:]
    assert grove.matched([*range(20)]) == (10, [pages[0], pages[1], pages[3]])


def test_nothing_is_found_where_the_first_token_differs() -> None:
    grove = Grove()
    grove.insert([*range(10)])
    assert grove.matched([9, *range(1, 10)]) == (0, [])


def test_a_match_is_cut_to_its_limit() -> None:
    grove = Grove()
    pages = grove.insert([*range(12)]).pages
    match = grove.tree.match([*range(12)], 7)
    assert (match.length, match.pages) == (7, pages[:2])
    assert (match.whole.page, match.last.page) == (pages[0], pages[1])


def test_ids_that_are_in_no_page_yet_are_not_found() -> None:
    grove, tokens = Grove(), [*range(20)]
    table = PageTable()
    grove.pager.grow(table, 9)
    table.length = 9
    grove.tree.insert(tokens, table, True, "")
    assert grove.matched(tokens) == (9, table.pages)


@pytest.mark.parametrize("window", [1, 2, 4, 5, 6])
def test_a_window_needs_only_the_pages_that_the_next_token_sees(window: int) -> None:
    for length in range(1, 13):
        grove = Grove(window)
        pages = grove.insert([*range(length)]).pages
        first = max(0, length - window + 1) // SIZE
        for index in range(len(pages)):
            node = grove.tree.node_at(pages[index])
            if node is not None and index < first:
                grove.tree.remove(node)
        check_tree(grove.tree, grove.pager)
        if window > 1:
            assert grove.matched([*range(length)]) == (length, pages[first:])


def test_with_a_window_the_longest_usable_beginning_is_found() -> None:
    grove = Grove(window=5)
    pages = grove.insert([*range(20)]).pages
    gone = grove.tree.node_at(pages[3])
    assert gone is not None
    grove.tree.remove(gone)
    assert grove.matched([*range(20)]) == (20, pages[4:])  # token 20 sees tokens 16 … 19
    gone = grove.tree.node_at(pages[4])
    assert gone is not None
    grove.tree.remove(gone)
    assert grove.matched([*range(20)]) == (12, pages[2:3])


def test_with_a_window_a_page_is_found_in_part_also_where_the_prompt_goes_on_in_pages_that_are_gone() -> None:
    grove = Grove(window=5)
    pages = grove.insert([*range(20)], "chat").pages
    part = grove.insert([*range(6)], "other").pages[1]
    for page in pages[1:4]:
        gone = grove.tree.node_at(page)
        assert gone is not None
        grove.tree.remove(gone)
    assert grove.matched([*range(14)]) == (6, [pages[0], part])
    assert grove.matched([*range(21)]) == (20, pages[4:])


Ids = st.lists(st.integers(0, 2), min_size=1, max_size=14)


@given(st.lists(Ids, max_size=6), Ids)
def test_what_is_found_is_the_longest_common_beginning_with_anything_inserted(
    inserted: list[list[int]], wanted: list[int]
) -> None:
    grove = Grove()
    for number, tokens in enumerate(inserted):
        grove.insert(tokens, str(number % 2))
    common = [common_length(tokens, wanted) for tokens in inserted]
    length, pages = grove.matched(wanted)
    assert length == max(common, default=0)
    assert len(pages) == -(-length // SIZE)


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    length = 0
    while length < min(len(left), len(right)) and left[length] == right[length]:
        length += 1
    return length
