"""A node of the prefix tree: a page of a sequence, behind the page before it."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.kv.chat_pages import Owners
from engine.kv.page_table import NO_PAGE

Tokens = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Node:
    """A page of a sequence.

    Attributes:
        tokens: its ids; fewer than page_size only in a partly filled last page.
        parent: the page before it; None in the root, which is no page.
        depth: pages before it; -1 in the root.
        key: `chain_key` of a full page; empty in a partly filled one.
        page: where it lies in the arena, NO_PAGE when it is not in memory.
        resident_children: children with a page in memory.
        stamp: when it was last used, by the tree's clock.
    """

    tokens: Tokens
    parent: Node | None
    depth: int
    key: bytes
    page: int = NO_PAGE
    children: dict[Tokens, Node] = field(default_factory=dict[Tokens, "Node"])
    resident_children: int = 0
    owners: Owners = frozenset()
    stamp: int = 0


def path_to(node: Node) -> list[Node]:
    """The nodes from the first page down to `node`; none to the root."""
    path = list[Node]()
    while node.parent is not None:
        path.append(node)
        node = node.parent
    path.reverse()
    return path
