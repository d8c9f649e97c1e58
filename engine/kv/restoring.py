"""Pages that come back from SSD: which of a prompt's are read, and the next ones while these are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.kv.page_data import RUN_PAGES, PageData, chain_keys
from engine.kv.pager import Pager, PageTable
from engine.kv.prefix_tree import PrefixTree
from engine.kv.ssd_runs import read_run, stored_run
from engine.kv.stores import Tier

AHEAD_BYTES, AHEAD_RUNS = 16 << 20, 4
"""Most that is read ahead, but for one run at least: the reader goes on while the arena is built."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What the SSD has behind the first `begin` pages of a sequence: those up to `end`.

    Of these `first` … end-1 have to be read: with a sliding window a continuation sees no more of them.
    """

    begin: int
    first: int
    end: int


@dataclass(slots=True)
class _Expected:
    """Runs of the prompt of `table` that are read ahead: the keys of their first pages, as page: key.

    `next` is the first page behind them, and `key` that of the page before it.
    """

    table: PageTable
    next: int
    key: bytes
    runs: dict[int, bytes] = field(default_factory=dict[int, bytes])


class Restoring:
    """Reads a prompt's pages, run by run, and lets the SSD read the next runs meanwhile."""

    def __init__(self, pager: Pager, tree: PrefixTree, tier: Tier, page_bytes: int) -> None:
        self._pager, self._tree, self._tier = pager, tree, tier
        self._most_ahead = max(1, min(AHEAD_RUNS, AHEAD_BYTES // (RUN_PAGES * page_bytes)))
        self._expected: _Expected | None = None

    def ahead(self, table: PageTable, tokens: Sequence[int]) -> Ahead:
        """Of a prompt behind the full pages of `table`: without a sliding window at most the next run.

        Where it has begun to read what a window sees, all that it would add to nothing.
        """
        full = table.length // self._pager.page_size
        if self._tree.window is None:
            return Ahead(full, full, min(full + RUN_PAGES, (len(tokens) - 1) // self._pager.page_size))
        ahead = self.behind(key_before(self._tree, table, tokens, full), full, tokens)
        return replace(ahead, begin=0) if self._tree.is_torn(table) else ahead

    def behind(self, key: bytes, begin: int, tokens: Sequence[int]) -> Ahead:
        """Of a prompt whose first `begin` pages end with the page `key`; never its last token."""
        size = self._pager.page_size
        stored = stored_run(self._tier, key, tokens[begin * size : -1], size, None)
        end = begin + len(stored.keys)
        return Ahead(begin, max(begin, self._tree.first_seen(end * size)), end)

    def skip(self, table: PageTable, tokens: Sequence[int]) -> None:
        """Leave out stored pages behind `table` that the window has left where the last stored one ends."""
        if self._tree.window is None:
            return
        first = self.ahead(table, tokens).first
        if first > table.length // self._pager.page_size:
            self._pager.skip(table, first)

    def expect(self, table: PageTable, tokens: Sequence[int]) -> None:
        """Let the SSD read what `read` is going to give of a prompt behind the full pages of `table`.

        Nothing with a sliding window: which pages are needed then, `skip` decides.
        """
        if self._tree.window is None:
            first = table.length // self._pager.page_size
            self._look_ahead(table, tokens, first, key_before(self._tree, table, tokens, first))

    def read(self, table: PageTable, tokens: Sequence[int], most: int) -> PageData | None:
        """The next pages of a prompt behind the full ones of `table`, at most `most`, and of one run.

        None when the SSD has none, or cannot give them.
        """
        size = self._pager.page_size
        first = table.length // size
        end = min(first + min(RUN_PAGES - first % RUN_PAGES, most), (len(tokens) - 1) // size)
        key = key_before(self._tree, table, tokens, first)
        run = stored_run(self._tier, key, tokens[first * size : end * size], size, None)
        data = read_run(self._tier, run)
        if data is not None:
            self._look_ahead(table, tokens, first + data.pages, run.keys[data.pages - 1])
        return data

    def ended(self, table: PageTable) -> None:
        """`table` is freed: nothing more is read for it."""
        if self._expected is not None and self._expected.table is table:
            self._tier.expect(())
            self._expected = None

    def _look_ahead(self, table: PageTable, tokens: Sequence[int], first: int, key: bytes) -> None:
        """The next read begins at page `first`, behind page `key`: expect its run and those that follow."""
        size, last = self._pager.page_size, (len(tokens) - 1) // self._pager.page_size
        expected = self._expected
        if expected is None or expected.table is not table or first not in {*expected.runs, expected.next}:
            expected = self._expected = _Expected(table, first, key)
        expected.runs = {page: begin for page, begin in expected.runs.items() if page >= first}
        while len(expected.runs) < self._most_ahead and expected.next < last:
            begin, end = expected.next, min(expected.next + RUN_PAGES - expected.next % RUN_PAGES, last)
            pages = [tokens[page * size : (page + 1) * size] for page in range(begin, end)]
            keys = chain_keys(expected.key, pages)
            expected.runs[begin], expected.next, expected.key = keys[0], end, keys[-1]
        self._tier.expect(tuple(expected.runs.values()))


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
