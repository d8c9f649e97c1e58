"""Which cached page leaves memory next: the least recently used one that nobody needs."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from engine.kv.node import Node
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree

Candidate = tuple[int, int, int, Node]
"""Stamp, depth where it decides, page (which makes candidates differ), node."""


class EvictionOrder:
    """The order of eviction.

    Only idle nodes that no pinned chat owns may go; for a chat that is pinned itself, its own may. Without a
    sliding window a node goes after those behind it, unless they must all stay. With one it may go before
    them, and among nodes that were used at once the one nearest to the root goes first: a continuation needs
    it least.

    Candidates are collected when none is left. A node that was used since then is newer than all that were
    collected, so it is passed over until the next time, and the order is exact: a table's nodes count as used
    when it is freed, and whoever lets nodes go in another way calls `restart`.
    """

    def __init__(self, tree: PrefixTree, pager: Pager) -> None:
        self._tree = tree
        self._pager = pager
        self._candidates: list[Candidate] = []
        self._collected_at, self._collected_for = 0, ""

    def count(self, chat: str = "") -> int:
        """Nodes that may go for `chat`, one after the other: all idle ones that are not pinned for others."""
        idle = self._pager.idle_pages
        kept = self._tree.pinned_nodes(chat) if self._tree.has_pins else ()
        return len(idle) - sum(node.page in idle for node in kept)

    def restart(self) -> None:
        """Collect candidates anew: pins or owners have changed."""
        self._candidates.clear()

    def next(self, chat: str = "") -> Node | None:
        """The node to remove for `chat` now; the caller removes it. None when none may go."""
        if chat != self._collected_for:
            self._candidates.clear()
        for _ in range(2):
            while self._candidates:
                stamp, _, page, node = heappop(self._candidates)
                if (node.page, node.stamp) == (page, stamp) and self._may_go(node, chat):
                    self._offer_parent(node)
                    return node
            self._collect(chat)
        return None

    def _may_go(self, node: Node, chat: str) -> bool:
        return node.page in self._pager.idle_pages and not self._tree.is_pinned(node, chat)

    def _collect(self, chat: str) -> None:
        nodes = [node for node in self._tree.idle_nodes() if self._may_go(node, chat)]
        if self._tree.window is None:
            nodes = [node for node in nodes if not node.resident_children] or nodes
        self._candidates = [self._candidate(node) for node in nodes]
        self._collected_at, self._collected_for = self._tree.clock, chat
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
