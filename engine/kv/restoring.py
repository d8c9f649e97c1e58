"""Pages that come back from SSD: which of a prompt's are read next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.kv.page_data import chain_keys, run_pages
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree
from engine.kv.ssd.runs import StoredRun, stored_run
from engine.kv.stores import MemoryOf, Tier

BYTES_AT_ONCE, RUNS_AT_ONCE = 32 << 20, 4
"""What is read before others have their turn: so many bytes, or runs where that is more.

The runs are a multiple of RUNS_AT_ONCE, so that those who read side by side end together.
"""

ALONE = 8
"""So many times as much where nobody waits: at the end of each read some thread has nothing to do."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What the SSD has behind the first `begin` pages of a sequence: those up to `end`.

    Of these `first` … end-1 have to be read: with a sliding window a continuation sees no more of them.
    """

    begin: int
    first: int
    end: int


class Restoring:
    """Says which of a prompt's pages are read next."""

    def __init__(self, pager: Pager, tree: PrefixTree, tier: Tier, page_bytes: int) -> None:
        self._pager, self._tree, self._tier = pager, tree, tier
        self._run_pages = run_pages(page_bytes)
        runs = BYTES_AT_ONCE // (self._run_pages * page_bytes)
        self._pages_at_once = self._run_pages * max(RUNS_AT_ONCE, runs - runs % RUNS_AT_ONCE)

    def ahead(self, table: PageTable, tokens: Sequence[int], is_alone: bool) -> Ahead:
        """Of a prompt behind the full pages of `table`: without a sliding window what is read at once.

        Where it has begun to read what a window sees, all that it would add to nothing.
        """
        full = table.length // self._pager.page_size
        key = key_before(self._tree, table, tokens, full)
        if self._tree.window is None:
            return Ahead(full, full, full + len(self._stored(tokens, full, key, is_alone).keys))
        ahead = self.behind(key, full, tokens)
        return replace(ahead, begin=0) if self._tree.is_torn(table) else ahead

    def behind(self, key: bytes, begin: int, tokens: Sequence[int]) -> Ahead:
        """Of a prompt whose first `begin` pages end with the page `key`; never its last token."""
        size = self._pager.page_size
        stored = stored_run(self._tier, key, tokens[begin * size : -1], size)
        end = begin + len(stored.keys)
        return Ahead(begin, max(begin, self._tree.first_seen(end * size)), end)

    def fetch(self, tokens: Sequence[int]) -> None:
        """Let the system fetch what would be read first of a prompt that has its turn alone.

        Nothing with a sliding window: which pages are needed then, `skip` decides.
        """
        if self._tree.window is None:
            match = self._tree.match(tokens, len(tokens) - 1)
            full = match.length // self._pager.page_size
            self._tier.expect(self._stored(tokens, full, match.whole.key, is_alone=True).keys)

    def skip(self, table: PageTable, tokens: Sequence[int]) -> None:
        """Leave out stored pages behind `table` that the window has left where the last stored one ends."""
        if self._tree.window is None:
            return
        first = self.ahead(table, tokens, is_alone=True).first
        if first > table.length // self._pager.page_size:
            self._pager.skip(table, first)

    def next(self, table: PageTable, tokens: Sequence[int], most: int, is_alone: bool) -> StoredRun:
        """The pages to read next of a prompt behind the full ones of `table`, at most `most`."""
        first = table.length // self._pager.page_size
        key = key_before(self._tree, table, tokens, first)
        return self._stored(tokens, first, key, is_alone).head(most)

    def read(self, run: StoredRun, memory: MemoryOf) -> int:
        """Read the pages of `run`; returns how many, from the first on, their memory holds."""
        return self._tier.read(run.keys, run.ids, memory)

    def _stored(self, tokens: Sequence[int], first: int, key: bytes, is_alone: bool) -> StoredRun:
        """What is stored of the pages that are read at once, from the one at `first` on behind page `key`."""
        size = self._pager.page_size
        end = self._end(first, tokens, is_alone)
        return stored_run(self._tier, key, tokens[first * size : end * size], size)

    def _end(self, first: int, tokens: Sequence[int], is_alone: bool) -> int:
        """Where a read that begins at page `first` ends: with a run, and before the last token."""
        at_once = self._pages_at_once * (ALONE if is_alone else 1)
        return min(first - first % self._run_pages + at_once, (len(tokens) - 1) // self._pager.page_size)


def key_before(tree: PrefixTree, table: PageTable, tokens: Sequence[int], index: int) -> bytes:
    """The key of the page before the one at `index` of `table`, which holds `tokens`."""
    if not index:
        return tree.root.key
    node = tree.node_at(table.pages[index - 1])
    if node is not None and node.depth == index - 1:
        return node.key
    size = tree.page_size
    return chain_keys(
        tree.root.key, [tokens[begin : begin + size] for begin in range(0, index * size, size)]
    )[-1]
