"""A small prefix tree with its pager, checked after each change."""

from __future__ import annotations

from collections.abc import Sequence

from engine.kv.audit import check_tree
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree

SIZE = 4
PAGES = 64


class Grove:
    """A tree and its pager."""

    def __init__(self, window: int | None = None) -> None:
        self.pager = Pager(PAGES, SIZE)
        self.tree = PrefixTree(self.pager, window)

    def insert(self, tokens: Sequence[int], chat: str = "", *, whole: bool = True) -> PageTable:
        """Pages of `tokens` in the tree; the table is freed, and returned as it was."""
        table = PageTable()
        self.pager.grow(table, len(tokens))
        table.length = len(tokens)
        self.tree.insert(tokens, table, whole, chat)
        check_tree(self.tree, self.pager)
        kept = PageTable(list(table.pages), table.length)
        self.pager.free(table)
        return kept

    def matched(self, tokens: Sequence[int]) -> tuple[int, list[int]]:
        match = self.tree.match(tokens, len(tokens))
        assert match.pages == [node.page for node in match.nodes]
        return match.length, match.pages[match.first :]
