"""Which cached page leaves memory next: the least recently used one that nobody needs."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from engine.kv.pager import Pager
from engine.kv.prefix_tree import Node, PrefixTree

Candidate = tuple[int, int, int, Node]
"""Stamp, depth where it decides, page (which makes candidates differ), node."""


class EvictionOrder:
    """The order of eviction.

    Only idle nodes that no pinned chat owns may go. Without a sliding window a node goes after all nodes
    behind it. With one it may go before them, and among nodes used at once the one nearest to the root goes
    first: a continuation sees it last.

    Candidates are collected when none is left. A node that was used since then is newer than all that were
    collected, so it is passed over until the next time, and the order is exact.
    """

    def __init__(self, tree: PrefixTree, pager: Pager) -> None:
        self._tree = tree
        self._pager = pager
        self._candidates: list[Candidate] = []
        self._collected_at = 0

    def count(self) -> int:
        """Nodes that may go, one after the other.

        All idle ones that are not pinned: a table that holds a page holds those before it too, and whoever
        owns a page owns those before it, so that no such node is kept by one behind it.
        """
        idle = self._pager.idle_pages
        if not self._tree.has_pins:
            return len(idle)
        return sum(not self._tree.is_pinned(node) for node in map(self._tree.node_at, idle) if node)

    def next(self) -> Node | None:
        """The node to remove now; the caller removes it. None when none may go."""
        for _ in range(2):
            while self._candidates:
                stamp, _, page, node = heappop(self._candidates)
                if (node.page, node.stamp) == (page, stamp) and self._may_go(node):
                    self._offer_parent(node)
                    return node
            self._collect()
        return None

    def _may_go(self, node: Node) -> bool:
        return (
            node.page in self._pager.idle_pages
            and not (node.resident_children and self._tree.window is None)
            and not self._tree.is_pinned(node)
        )

    def _collect(self) -> None:
        nodes = [self._tree.node_at(page) for page in self._pager.idle_pages]
        self._candidates = [self._candidate(node) for node in nodes if node and self._may_go(node)]
        self._collected_at = self._tree.clock
        heapify(self._candidates)

    def _offer_parent(self, node: Node) -> None:
        """With `node` gone, the node before it may be the last of its path."""
        parent = node.parent
        if (
            self._tree.window is None
            and parent is not None
            and parent.resident_children == 1
            and parent.stamp <= self._collected_at
        ):
            heappush(self._candidates, self._candidate(parent))

    def _candidate(self, node: Node) -> Candidate:
        return (node.stamp, 0 if self._tree.window is None else node.depth, node.page, node)
