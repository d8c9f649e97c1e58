"""What is in memory of a sequence: the longest way down the prefix tree whose pages can be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cache.common_length import common_length
from engine.kv.node import Node, path_to
from engine.kv.page_table import NO_PAGE
from engine.kv.trail import Trail
from engine.kv.window import first_seen


@dataclass(frozen=True, slots=True)
class Match:
    """What is in memory of a sequence: its first `length` tokens are usable.

    Attributes:
        whole: the node of the last whole page of these; the root where there is none.
        last: of their last page, which may hold more than the match: behind `whole`, or the same.
        pages: where they lie, from the first on.
        first: of `pages`, the first that is needed: more than 0 only with a sliding window.
        length: tokens.
    """

    whole: Node
    last: Node
    pages: list[int]
    first: int
    length: int

    @property
    def nodes(self) -> list[Node]:
        """Of its pages, from the first on."""
        return path_to(self.last)


class Matching:
    """Looks sequences up in a prefix tree, and changes nothing in it."""

    def __init__(self, root: Node, trail: Trail, page_size: int, window: int | None) -> None:
        """`window`: tokens that the widest layer sees, when every layer has a sliding window."""
        self._root, self._trail = root, trail
        self._page_size, self._window = page_size, window

    def match(self, tokens: Sequence[int], limit: int) -> Match:
        """The longest usable beginning of the first `limit` of `tokens`; it may end inside a page."""
        pages, node = self.walk(tokens, limit)
        size = self._page_size
        while True:
            done = len(pages) * size
            child, common = self._best_child(node, tokens[done : min(done + size, limit)])
            if child is not None and (first := self._first_needed(pages, done + common)) is not None:
                return Match(node, child, [*pages, child.page], first, done + common)
            if (first := self._first_needed(pages, done)) is not None:
                return Match(node, node, pages, first, done)
            pages.pop()
            assert node.parent is not None  # of the root nothing is needed
            node = node.parent

    def walk(self, tokens: Sequence[int], limit: int) -> tuple[list[int], Node]:
        """The whole pages within the first `limit` of `tokens`, and the last one's node.

        Only a window lets a page be gone.
        """
        size = self._page_size
        pages, last = self._trail.along(tokens, limit)
        node = last or self._root
        for begin in range(len(pages) * size, limit - size + 1, size):
            child = node.children.get(tuple(tokens[begin : begin + size]))
            if child is None or (self._window is None and child.page == NO_PAGE):
                break
            pages.append(child.page)
            node = child
        return pages, node

    def first_seen(self, length: int) -> int:
        """The first page that a continuation behind `length` tokens sees: 0 without a sliding window."""
        return first_seen(length, self._window) // self._page_size

    def _best_child(self, node: Node, rest: Sequence[int]) -> tuple[Node | None, int]:
        """The child in memory that begins with most of `rest`, at least one, and how many."""
        best, most, rest = None, 0, tuple(rest)
        for child in node.children.values():
            # Of a chat with many branches nearly all differ where the best so far does.
            if child.page == NO_PAGE or child.tokens[most : most + 1] != rest[most : most + 1]:
                continue
            common = common_length(child.tokens, rest)
            if common > most:
                best, most = child, common
        return best, most

    def _first_needed(self, pages: Sequence[int], length: int) -> int | None:
        """The first page that a continuation behind `length` tokens sees; None when one is not in memory.

        `pages` are whole ones; a partly used one behind them is there.
        """
        if self._window is None:
            return 0
        first = self.first_seen(length)
        return None if NO_PAGE in pages[first:] else first
