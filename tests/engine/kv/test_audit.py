"""The audit finds each way in which the books can be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.kv.audit import check_tree
from engine.kv.node import Node
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree


def planted() -> tuple[PrefixTree, Pager, list[Node]]:
    """A tree with three pages in a row, the last partly filled."""
    pager = Pager(8, 2)
    tree, table = PrefixTree(pager), PageTable()
    pager.grow(table, 5)
    table.length = 5
    tree.insert([1, 2, 3, 4, 5], table, True, "chat")
    return tree, pager, list(tree.nodes())


def test_right_books_pass() -> None:
    tree, pager, _ = planted()
    check_tree(tree, pager)


def _lose_page(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[1].page = NO_PAGE


def _share_page(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[1].page = nodes[0].page


def _let_go(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    pager.uncache(nodes[0].page)


def _change_key(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[1].key = nodes[0].key


def _change_tokens(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[1].tokens = (9, 9)


def _change_owners(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[1].owners = frozenset(("other",))


def _drop_owners(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[2].owners = frozenset()


def _add_owner(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[0].owners |= {"other"}


def _miscount(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[0].resident_children = 2


def _misplace(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[1].depth = 3


def _continue_a_part(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[2].children[(6, 7)] = Node((6, 7), nodes[2], 3, b"")


def _leave_empty(tree: PrefixTree, pager: Pager, nodes: list[Node]) -> None:
    nodes[1].children[(6,)] = Node((6,), nodes[1], 2, b"", owners=nodes[1].owners)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (_lose_page, "page 1 is in another node than noted"),
        (_share_page, "a page is in two nodes"),
        (_let_go, "page 0 is cached without a node"),
        (_change_key, "page 1 has a wrong key"),
        (_change_tokens, "page 1 is not where its tokens say"),
        (_change_owners, "page 1 has owners its parent has not"),
        (_drop_owners, "page 2 is nobody's"),
        (_add_owner, "chats are counted"),
        (_miscount, "page 0 counts its children wrongly"),
        (_misplace, "page 1 has the wrong depth"),
        (_continue_a_part, "page 2 is partly filled and has pages behind it"),
        (_leave_empty, "holds nothing"),
    ],
)
def test_wrong_books_are_told(harm: Callable[[PrefixTree, Pager, list[Node]], None], told: str) -> None:
    tree, pager, nodes = planted()
    harm(tree, pager, nodes)
    with pytest.raises(AssertionError, match=told):
        check_tree(tree, pager)
