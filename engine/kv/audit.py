"""The books of the prefix tree, checked: for tests, and for whoever doubts them."""

from __future__ import annotations

from engine.kv.chat_pages import ChatPages
from engine.kv.node import Node
from engine.kv.page_data import chain_key
from engine.kv.page_table import NO_PAGE
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree


def check_tree(tree: PrefixTree, pager: Pager) -> None:
    """Raise AssertionError, naming the page, unless every node and every sum is right.

    Tests ask after every step, of thousands of pages: no words are made for what is right.
    """
    nodes = list(tree.nodes())
    resident = {node.page: node for node in nodes if node.page != NO_PAGE}
    if len(resident) != sum(node.page != NO_PAGE for node in nodes):
        raise AssertionError("a page is in two nodes")
    for page in range(pager.total_pages):
        node = resident.get(page)
        if tree.node_at(page) is not node:
            raise AssertionError(f"page {page} is in another node than noted")
        if pager.is_cached(page) != (node is not None):
            raise AssertionError(f"page {page} is cached without a node")
    chats = ChatPages()
    for node in nodes:
        _check_node(node, tree, pager)
        if node.page != NO_PAGE:
            chats.add(node.owners, 1)
    if chats.counts != tree.chats:
        raise AssertionError(f"chats are counted {tree.chats} and have {chats.counts}")


def _check_node(node: Node, tree: PrefixTree, pager: Pager) -> None:
    parent = node.parent
    if parent is None:
        raise AssertionError(f"the node of page {node.page} has no parent")
    is_full = len(node.tokens) == pager.page_size
    resident = sum(child.page != NO_PAGE for child in node.children.values())
    for is_right, wrong in (
        (parent.children.get(node.tokens) is node, "is not where its tokens say"),
        (node.depth == parent.depth + 1, "has the wrong depth"),
        (is_full or not node.children, "is partly filled and has pages behind it"),
        (node.key == (chain_key(parent.key, node.tokens) if is_full else b""), "has a wrong key"),
        (parent is tree.root or node.owners <= parent.owners, "has owners its parent has not"),
        (bool(node.owners), "is nobody's"),
        (node.resident_children == resident, "counts its children wrongly"),
        (node.page != NO_PAGE or bool(node.children), "holds nothing"),
    ):
        if not is_right:
            raise AssertionError(f"the node of page {node.page} {wrong}")
