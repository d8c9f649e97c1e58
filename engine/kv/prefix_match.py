"""What is in memory of a sequence: the longest way down the prefix tree whose pages can be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cache.common_length import common_length
from engine.kv.node import Node
from engine.kv.page_table import NO_PAGE
from engine.kv.trail import Trail
from engine.kv.window import first_seen


@dataclass(frozen=True, slots=True)
class Match:
    """What is in memory of a sequence: its first `length` tokens are usable.

    Attributes:
        nodes: of these tokens, from the root down; the last may hold more than the match.
        first: of `nodes`, the first whose page is needed: more than 0 only with a sliding window.
        length: tokens.
    """

    nodes: list[Node]
    first: int
    length: int


class Matching:
    """Looks sequences up in a prefix tree, and changes nothing in it."""

    def __init__(self, root: Node, trail: Trail, page_size: int, window: int | None) -> None:
        """`window`: tokens that the widest layer sees, when every layer has a sliding window."""
        self._root, self._trail = root, trail
        self._page_size, self._window = page_size, window

    def match(self, tokens: Sequence[int], limit: int) -> Match:
        """The longest usable beginning of the first `limit` of `tokens`; it may end inside a page."""
        nodes = self._walk(tokens, limit)
        size = self._page_size
        done = len(nodes) * size
        child, common = self._best_child(
            nodes[-1] if nodes else self._root, tokens[done : min(done + size, limit)]
        )
        if child is not None:
            first = self._first_needed(nodes, done + common)
            if first is not None:
                return Match([*nodes, child], first, done + common)
        while nodes:
            first = self._first_needed(nodes, len(nodes) * size)
            if first is not None:
                return Match(nodes, first, len(nodes) * size)
            nodes.pop()
        return Match([], 0, 0)

    def first_seen(self, length: int) -> int:
        """The first page that a continuation behind `length` tokens sees: 0 without a sliding window."""
        return first_seen(length, self._window) // self._page_size

    def _walk(self, tokens: Sequence[int], limit: int) -> list[Node]:
        """The nodes of whole pages within the first `limit` tokens; only a window lets a page be gone."""
        size, nodes = self._page_size, self._trail.along(tokens, limit)
        children = nodes[-1].children if nodes else self._root.children
        for begin in range(len(nodes) * size, limit - size + 1, size):
            node = children.get(tuple(tokens[begin : begin + size]))
            if node is None or (self._window is None and node.page == NO_PAGE):
                break
            nodes.append(node)
            children = node.children
        return nodes

    def _best_child(self, node: Node, rest: Sequence[int]) -> tuple[Node | None, int]:
        """The child in memory that begins with most of `rest`, at least one, and how many."""
        best, most = None, 0
        for child in node.children.values():
            if child.page == NO_PAGE or not rest or child.tokens[0] != rest[0]:
                continue
            common = common_length(child.tokens, rest)
            if common > most:
                best, most = child, common
        return best, most

    def _first_needed(self, nodes: Sequence[Node], length: int) -> int | None:
        """The first page that a continuation behind `length` tokens sees; None when one is not in memory.

        `nodes` are those of whole pages; a partly used one behind them is there.
        """
        if self._window is None:
            return 0
        first = self.first_seen(length)
        return first if all(node.page != NO_PAGE for node in nodes[first:]) else None
