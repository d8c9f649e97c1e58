"""The books of the prefix tree, checked: for tests, and for whoever doubts them."""

from __future__ import annotations

from engine.kv.chat_pages import ChatPages
from engine.kv.page_data import chain_key
from engine.kv.pager import NO_PAGE, Pager
from engine.kv.prefix_tree import Node, PrefixTree


def check_tree(tree: PrefixTree, pager: Pager) -> None:
    """Raise AssertionError, naming the page, unless every node and every sum is right."""
    nodes = list(tree.nodes())
    resident = {node.page: node for node in nodes if node.page != NO_PAGE}
    _require(len(resident) == sum(node.page != NO_PAGE for node in nodes), "a page is in two nodes")
    for page in range(pager.total_pages):
        _require(tree.node_at(page) is resident.get(page), f"page {page} is in another node than noted")
        _require(pager.is_cached(page) == (page in resident), f"page {page} is cached without a node")
    chats = ChatPages()
    for node in nodes:
        _check_node(node, tree, pager)
        if node.page != NO_PAGE:
            chats.add(node.owners)
    _require(chats.counts == tree.chats, f"chats are counted {tree.chats} and have {chats.counts}")


def _check_node(node: Node, tree: PrefixTree, pager: Pager) -> None:
    parent, name = node.parent, f"the node of page {node.page}"
    if parent is None:
        raise AssertionError(f"{name} has no parent")
    is_full = len(node.tokens) == pager.page_size
    _require(parent.children.get(node.tokens) is node, f"{name} is not where its tokens say")
    _require(node.depth == parent.depth + 1, f"{name} has the wrong depth")
    _require(is_full or not node.children, f"{name} is partly filled and has pages behind it")
    _require(node.key == (chain_key(parent.key, node.tokens) if is_full else b""), f"{name} has a wrong key")
    _require(parent is tree.root or node.owners <= parent.owners, f"{name} has owners its parent has not")
    _require(bool(node.owners), f"{name} is nobody's")
    resident = sum(child.page != NO_PAGE for child in node.children.values())
    _require(node.resident_children == resident, f"{name} counts its children wrongly")
    _require(node.page != NO_PAGE or bool(node.children), f"{name} holds nothing")


def _require(is_right: bool, wrong: str) -> None:
    if not is_right:
        raise AssertionError(wrong)
