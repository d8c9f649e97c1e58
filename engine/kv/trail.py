"""The sequence that was entered into the prefix tree last: who goes on with it need not look page by page."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from engine.cache.common_length import common_length
from engine.kv.node import Node

_ID = "I"
"""Of an array: a token's id, 32 bits."""


class Trail:
    """Its ids, and the nodes of its whole pages, all in memory; nothing where one of these has left it."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._ids, self._nodes = array(_ID), list[Node]()

    def along(self, tokens: Sequence[int], limit: int) -> list[Node]:
        """The nodes of whole pages that it and the first `limit` of `tokens` begin with.

        All ids are compared at once: quickest where `tokens` are an array of 32 bits.
        """
        if not self._nodes:
            return []
        ids = tokens if isinstance(tokens, array) else array(_ID, tokens)
        return self._nodes[: min(common_length(self._ids, ids), limit) // self._page_size]

    def leave(self, tokens: Sequence[int], last: Node) -> None:
        """It is `tokens` now, whose whole pages are those down to `last`."""
        nodes = list[Node]()
        while last.parent is not None:
            nodes.append(last)
            last = last.parent
        nodes.reverse()
        self._ids, self._nodes = array(_ID, tokens), nodes

    def lose(self) -> None:
        """One of its pages is gone."""
        self._ids, self._nodes = array(_ID), []
