"""The prefix tree: pages are found by their exact tokens, owned by chats, and counted."""

from __future__ import annotations

import pytest

from engine.kv.audit import check_tree
from engine.kv.chat_pages import PageCount
from engine.kv.page_data import ROOT_KEY, chain_keys
from engine.kv.page_table import NO_PAGE, PageTable
from tests.engine.kv.grove import PAGES, SIZE, Grove


def test_keys_are_those_of_the_chain() -> None:
    grove = Grove()
    grove.insert([*range(10)])
    nodes = list(grove.tree.nodes())
    assert [node.key for node in nodes] == [*chain_keys(ROOT_KEY, [[0, 1, 2, 3], [4, 5, 6, 7]]), b""]


def test_new_pages_are_used_when_they_come() -> None:
    grove = Grove(window=5)
    grove.insert([*range(8)])
    before, table = grove.tree.clock, PageTable()
    grove.pager.grow(table, 24)
    table.length = 24
    grove.tree.insert([*range(24)], table, False, "")
    assert [node.stamp for node in grove.tree.nodes()] == [grove.tree.clock] * 6
    assert grove.tree.clock > before


def test_an_equal_page_is_held_once_and_the_table_gets_it() -> None:
    grove = Grove()
    first = grove.insert([*range(8)])
    second = grove.insert([*range(12)])
    assert second.pages[:2] == first.pages
    assert grove.pager.free_pages == PAGES - 3


@pytest.mark.parametrize("longer", [3, 4, 9])
def test_a_fuller_page_takes_the_place_of_a_partly_filled_one(longer: int) -> None:
    grove = Grove()
    grove.insert([*range(2)], "chat")
    pages = grove.insert([*range(longer)], "chat").pages
    assert grove.matched([*range(longer)]) == (longer, pages)
    assert grove.pager.free_pages == PAGES - len(pages)


def test_a_page_that_is_not_in_memory_takes_no_partly_filled_one_s_place() -> None:
    grove = Grove(window=5)
    pages = grove.insert([*range(6)], "chat").pages
    table = PageTable()
    grove.pager.skip(table, 2)  # a window sees no more of what came back
    grove.pager.grow(table, 12)
    table.length = 12
    grove.tree.insert([*range(12)], table, False, "chat")
    assert grove.matched([*range(7)]) == (6, pages)
    grove.pager.free(table)
    assert grove.insert([*range(8)], "chat").pages[0] == pages[0]
    assert grove.pager.free_pages == PAGES - 3  # it has come, and the other is gone


def test_a_partly_filled_page_of_another_chat_stays() -> None:
    grove = Grove()
    grove.insert([0, 1], "a")
    grove.insert([0, 1, 2], "b")
    assert grove.tree.chats == {"a": PageCount(1, 0), "b": PageCount(1, 0)}
    grove.tree.forget("b")
    assert grove.matched([0, 1, 2])[0] == 2


def test_a_beginning_of_a_page_that_the_chat_has_is_not_kept_again() -> None:
    grove = Grove()
    grove.insert([*range(8)], "chat")
    grove.insert([*range(6)], "chat")
    assert grove.tree.chats == {"chat": PageCount(2, 0)}
    assert grove.pager.free_pages == PAGES - 2


def test_owners_are_counted_page_by_page() -> None:
    grove = Grove()
    grove.insert([*range(12)], "a")
    grove.insert([*range(8), 9, 9], "b")
    grove.insert([*range(4)], "")
    assert grove.tree.chats == {"a": PageCount(3, 2), "b": PageCount(3, 2)}
    grove.tree.forget("a")
    assert grove.tree.chats == {"b": PageCount(3, 1)}  # the first page is also nobody's in particular
    grove.tree.forget("b")
    assert grove.tree.chats == {}
    assert grove.pager.free_pages == PAGES - 1


def test_a_page_that_left_hides_those_behind_it_until_it_is_back() -> None:
    grove = Grove()
    pages = grove.insert([*range(12)]).pages
    middle = grove.tree.node_at(pages[1])
    assert middle is not None
    grove.tree.remove(middle)
    check_tree(grove.tree, grove.pager)
    assert grove.matched([*range(12)]) == (4, pages[:1])
    grove.insert([*range(8)])
    assert grove.matched([*range(12)])[0] == 12


def test_the_last_node_of_a_path_takes_the_empty_ones_before_it_along() -> None:
    grove = Grove()
    for page in grove.insert([*range(12)]).pages:
        node = grove.tree.node_at(page)
        assert node is not None
        grove.tree.remove(node)
        check_tree(grove.tree, grove.pager)
    assert list(grove.tree.nodes()) == []
    assert grove.pager.free_pages == PAGES


def test_a_table_s_page_is_known_once() -> None:
    grove = Grove()
    grove.insert([*range(8)], "a")
    table = grove.pager.share([page.page for page in grove.tree.nodes()], 6)
    grove.tree.insert([*range(6)], table, True, "b")
    check_tree(grove.tree, grove.pager)
    assert len(list(grove.tree.nodes())) == 2


def test_of_a_page_that_left_its_new_owner_has_no_bytes_in_memory() -> None:
    grove = Grove()
    pages = grove.insert([*range(12)], "a").pages
    first, middle, last = (grove.tree.node_at(page) for page in pages)
    assert first is not None
    assert middle is not None
    assert last is not None
    grove.tree.remove(middle)
    assert grove.tree.claim(last, "b") == [last, middle, first]
    check_tree(grove.tree, grove.pager)
    assert grove.tree.chats == {"a": PageCount(2, 2), "b": PageCount(2, 2)}
    grove.tree.forget("a")
    check_tree(grove.tree, grove.pager)
    assert grove.tree.chats == {"b": PageCount(2, 0)}


def test_only_pages_that_were_not_the_chat_s_before_are_told() -> None:
    grove = Grove()
    pages = grove.insert([*range(8)], "a").pages
    table = grove.pager.share(pages, 8)
    first, second = (grove.tree.node_at(page) for page in pages)
    assert first is not None
    assert second is not None
    assert grove.tree.insert([*range(8)], table, True, "a") == []
    assert grove.tree.claim(second, "a") == []
    assert grove.tree.claim(first, "b") == [first]
    assert grove.tree.insert([*range(8)], table, True, "b") == [second]


def test_a_table_is_torn_where_a_page_that_the_next_token_sees_is_missing() -> None:
    grove = Grove(window=6)
    pages = grove.insert([*range(16)]).pages
    for length, missing, is_torn in (
        (16, (0, 1), False),  # the next token sees those from 11 on
        (16, (0, 1, 2), True),
        (13, (0, 1), False),
        (12, (0, 1), True),
        (1, (), False),
    ):
        table = PageTable(pages[: -(-length // SIZE)], length)
        for index in missing:
            table.pages[index] = NO_PAGE
        assert grove.tree.is_torn(table) == is_torn
    assert not grove.tree.is_torn(PageTable())


def test_all_that_a_sequence_is_in_was_used_when_it_was_entered_also_a_page_of_others() -> None:
    grove = Grove()
    tokens = [*range(10)]
    grove.insert(tokens, "a")
    grove.insert([7], "a")
    before = grove.tree.clock
    for chat in ("b", "a"):
        grove.insert(tokens, chat)
        assert [node.stamp for node in grove.tree.match(tokens, 10).nodes] == [grove.tree.clock] * 3
    assert grove.tree.clock > before
    assert sorted(node.stamp for node in grove.tree.nodes()) == [before, *[grove.tree.clock] * 3]


def test_pages_held_for_pins_are_those_of_other_pinned_chats_but_whole_ones_of_the_prompt() -> None:
    grove = Grove()
    grove.insert([*range(12)], "a")
    grove.insert([*range(8), *range(90, 98)], "b")
    grove.insert([*range(50, 60)], "c")
    a, b, both = frozenset("a"), frozenset("b"), frozenset("ab")
    assert grove.tree.held_for_pins("", [*range(12)], 12) == ({}, {}, 0)
    for chat in "ab":
        grove.tree.pin(chat, True)
    assert grove.tree.held_for_pins("c", [1000], 1) == ({a: 1, b: 2, both: 2}, {}, 0)
    assert grove.tree.held_for_pins("a", [1000], 1) == ({b: 4}, {}, 0)
    assert grove.tree.held_for_pins("c", [*range(13)], 13) == ({b: 2}, {both: 2, a: 1}, 12)
    assert grove.tree.held_for_pins("c", [*range(12)], 12) == (
        {a: 1, b: 2},
        {both: 2},
        8,
    )  # its last token is computed
    assert grove.tree.held_for_pins("d", [*range(50, 60), 1], 11) == (
        {a: 1, b: 2, both: 2},
        {},
        0,
    )  # c is not pinned
    assert grove.tree.held_for_pins("b", [*range(8), 90, 91], 10) == ({a: 1}, {a: 2}, 8)
    grove.tree.pin("b", False)
    assert grove.tree.held_for_pins("a", [1000], 1) == ({}, {}, 0)


def test_with_a_window_a_prompt_needs_no_pages_held_for_pins_that_have_left_it() -> None:
    grove = Grove(window=6)
    pages = grove.insert([*range(16)], "a").pages
    grove.tree.pin("a", True)
    first = grove.tree.node_at(pages[0])
    assert first is not None
    grove.tree.remove(first)
    assert grove.tree.held_for_pins("b", [1000], 1) == ({frozenset("a"): 3}, {}, 0)
    assert grove.tree.held_for_pins("b", [*range(17)], 17) == (
        {frozenset("a"): 1},
        {frozenset("a"): 2},
        16,
    )  # the next token sees the last two pages


def test_what_a_window_leaves_of_a_prompt_stays_for_pins_and_so_does_what_comes_back() -> None:
    grove, a = Grove(window=6), frozenset("a")
    pages = grove.insert([*range(20)], "a").pages
    grove.tree.pin("a", True)
    long = [*range(20), *range(100, 130)]
    assert grove.tree.held_for_pins("b", long, 50) == ({a: 3}, {a: 2}, 20)
    assert grove.tree.held_for_pins("b", long, 33) == ({a: 4}, {a: 1}, 20)  # of 12 pages the last 8 stay
    assert grove.tree.held_for_pins("b", long, 17) == ({a: 5}, {}, 0)
    for page in pages[1:3]:
        node = grove.tree.node_at(page)
        assert node is not None
        grove.tree.remove(node)
    edited = [*range(16), *range(100, 130)]  # its last page is there, and not what is seen from behind it
    assert grove.tree.held_for_pins("b", edited, 46) == ({a: 2}, {a: 1}, 4)
    assert grove.tree.held_for_pins("b", edited, 17) == ({a: 5}, {}, 0)
    assert grove.tree.held_for_pins("b", long, 17) == ({a: 3}, {}, 0)  # nothing is computed again


def test_no_page_is_in_no_node_also_when_the_last_page_is_in_one() -> None:
    grove = Grove()
    grove.insert([*range(PAGES * SIZE)])
    assert grove.tree.node_at(PAGES - 1) is not None
    assert grove.tree.node_at(NO_PAGE) is None


def test_a_chat_that_is_forgotten_is_pinned_no_longer() -> None:
    grove = Grove()
    grove.insert([*range(8)], "a")
    grove.tree.pin("a", True)
    assert grove.tree.keeps("a")
    grove.tree.forget("a")
    assert not grove.tree.keeps("a")
    assert not grove.tree.has_pins


def test_clearing_lets_go_of_every_page() -> None:
    grove = Grove()
    grove.insert([*range(30)], "a")
    grove.tree.clear()
    check_tree(grove.tree, grove.pager)
    assert (grove.pager.free_pages, grove.tree.chats, grove.matched([*range(30)])) == (PAGES, {}, (0, []))


def test_with_a_window_pages_that_were_given_back_leave_no_trace() -> None:
    grove = Grove(window=4)
    table = PageTable()
    grove.pager.grow(table, 12)
    table.length = 12
    grove.pager.release_before(table, 12)
    assert table.pages == [NO_PAGE] * 3
    grove.tree.insert([*range(12)], table, True, "")
    check_tree(grove.tree, grove.pager)
    assert list(grove.tree.nodes()) == []
