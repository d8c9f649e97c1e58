"""The sequence that was entered into the prefix tree last: who goes on with it need not look page by page."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from engine.cache.common_length import common_length
from engine.kv.node import Node, path_to
from engine.token_ids import ID

_PAGE = "q"
"""Of an array: a page."""


class Trail:
    """Its ids, its whole pages and their nodes, as far as all of these are in memory."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._ids, self._pages, self._nodes = array(ID), array(_PAGE), list[Node]()

    def along(self, tokens: Sequence[int], limit: int) -> tuple[list[int], Node | None]:
        """The whole pages that it and the first `limit` of `tokens` begin with, and the last one's node.

        All ids are compared at once: quickest where `tokens` are an array of 32 bits. No other node is
        looked at: what they are is no longer in the processor's cache when the next message comes.
        """
        if not self._nodes:
            return [], None
        ids = tokens if isinstance(tokens, array) else array(ID, tokens)
        alike = min(common_length(self._ids, ids), limit) // self._page_size
        count = min(alike, len(self._nodes))
        return self._pages[:count].tolist(), self._nodes[count - 1] if count else None

    def leave(self, tokens: Sequence[int], last: Node) -> None:
        """It is `tokens` now, whose whole pages are those down to `last`."""
        self._ids, self._nodes = array(ID, tokens), path_to(last)
        self._pages = array(_PAGE, [node.page for node in self._nodes])

    def left(self, node: Node) -> None:
        """The page of `node` leaves memory: what lies behind it cannot be used without it."""
        if node.depth < len(self._nodes) and self._nodes[node.depth] is node:
            del self._pages[node.depth :], self._nodes[node.depth :]
