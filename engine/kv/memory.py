"""KV memory: whose pages are where, and which leave, asked by the engine; no arrays and no mlx."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from engine.events.cache import ChatMemory
from engine.kv.audit import check_tree
from engine.kv.branches import let_go, share
from engine.kv.chat_pages import PageCount
from engine.kv.evictor import Evictor
from engine.kv.node import Node
from engine.kv.page_data import chain_keys
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree
from engine.kv.restoring import Ahead, Restoring, key_before
from engine.kv.stores import Found, MemoryCounts, PageStore, Spilled, StoredBytes, Tier


class KVMemory:
    """The pages of one model: those of running sequences and cached ones, in memory and on SSD.

    A sequence's life: `begin` shares what is in memory, `restore` adds what is on SSD, `grow` makes room for
    each chunk, `keep` makes what was computed findable, `trim` gives back what a sliding window has left,
    `free` ends it. All methods belong to one thread. An error of the store (of the device) goes through; then
    `drop` is due.

    Attributes:
        tree: what is cached.
        counts: what was done so far.
    """

    def __init__(
        self, pager: Pager, store: PageStore, tier: Tier | None = None, window: int | None = None
    ) -> None:
        """`window`: tokens that the widest layer sees, when every layer has a sliding window."""
        self._pager, self._store, self._tier, self._window = pager, store, tier, window
        self.tree = PrefixTree(pager, window, tier.tick if tier else None)
        self.counts = MemoryCounts()
        self._evictor = Evictor(pager, self.tree, store, tier, self.counts)
        self._restoring = Restoring(pager, self.tree, tier, store.page_bytes) if tier else None

    @property
    def available_pages(self) -> int:
        """Pages that `grow` could give now: free ones, and those it may evict."""
        return self._evictor.available_pages

    @property
    def cached_pages(self) -> int:
        """Pages that no sequence holds and that wait to be found again."""
        return len(self._pager.idle_pages)

    @property
    def is_on_ssd(self) -> bool:
        """Whether nothing is cached but what the SSD has too, and partly filled last pages behind that."""
        nodes, tier = self.tree.idle_nodes(), self._tier
        return not nodes or (tier is not None and all(tier.find(node.key) for node in nodes if node.key))

    def lookup(self, tokens: Sequence[int]) -> Found:
        """What a prompt of `tokens` would find now. Nothing is changed."""
        match = self.tree.match(tokens, len(tokens) - 1)
        if self._restoring is None:
            return Found(match.length, 0)
        full, size = match.length // self._pager.page_size, self._pager.page_size
        ahead = self._restoring.behind(match.whole.key, full, tokens)
        skipped = (ahead.first - ahead.begin) * size
        return Found(match.length, max(0, ahead.end * size - match.length), skipped)

    def fetch(self, tokens: Sequence[int]) -> None:
        """A prompt of `tokens` may come: let the system read what `restore` would ask the SSD for first."""
        if self._restoring is not None:
            self._restoring.fetch(tokens)

    def begin(self, tokens: Sequence[int], chat: str | None) -> PageTable:
        """A table that shares what is in memory of a prompt; its `length` says how many tokens that is.

        Never all of them: a fully cached prompt still computes its last token. `chat` owns those pages too;
        None: nobody more does.
        """
        match = self.tree.match(tokens, len(tokens) - 1)
        if chat is not None:
            self._evictor.stays(chat)
            self._claimed(self.tree.claim(match.whole, chat), chat)
        pages = [NO_PAGE] * match.first + match.pages[match.first :]
        return self._pager.share(pages, match.length, chat or "")

    def share(self, tokens: Sequence[int], chat: str) -> int:
        """`chat` owns the whole pages that there are of `tokens`, too. Returns their tokens."""
        return share(self.tree, self._tier, chat, tokens)

    def prepare(self, missing: int) -> None:
        """Build the arena for so many pages more at once, not by and by; takes none."""
        self._store.reserve(self.built_for(missing), self._pager.total_pages)

    def pages_built_for(self, tokens: Sequence[int], more: int, besides: int = 0) -> int:
        """Pages of an arena that has room for a prompt, `more` tokens behind it, and pages of others."""
        shared = self.tree.match(tokens, len(tokens) - 1).length // self._pager.page_size
        return self.built_for(self._pager.pages_for(len(tokens) + more) - shared + besides)

    def built_for(self, missing: int) -> int:
        """Pages that the arena has to have so that `missing` more can be used."""
        pager = self._pager
        unused = pager.free_pages - (pager.total_pages - pager.high_water)  # free, and built already
        return min(pager.high_water + max(0, missing - unused), pager.total_pages)

    def ahead(self, table: PageTable, tokens: Sequence[int], *, is_alone: bool) -> Ahead:
        """What `restore` could add to `table` of a prompt: without a sliding window what it reads at once.

        Where it has begun to read what a window sees, all that it would add to nothing.
        """
        return Ahead(0, 0, 0) if self._restoring is None else self._restoring.ahead(table, tokens, is_alone)

    def restore(self, table: PageTable, tokens: Sequence[int], chat: str, *, is_alone: bool) -> int:
        """Read the next pages of a prompt behind `table` from SSD, as many as are read at once.

        These are more where it is alone: nobody else waits for a turn.

        With a sliding window those are left out that no continuation behind the last stored one sees; then
        nothing may be computed behind `table` before all the others are there, or `settle` was called.

        Returns the tokens gained: 0 when the SSD has no more, it cannot be read, or no page is left for it.
        """
        if self._restoring is None or self._tier is None:
            return 0
        before, size = table.length, self._pager.page_size
        self._restoring.skip(table, tokens)
        most = self._evictor.available_for(table.chat)  # as `grow` may take them
        run = self._restoring.next(table, tokens, most, is_alone)
        if not run.keys:
            return 0
        self._tier.use(run.keys)  # or what leaves memory for them may take their place
        first = table.length // size
        part = self._pager.share(table.pages[first:], table.length)  # of a page, which stays meanwhile
        try:
            self._pager.shrink(table, first * size)
            self.grow(table, (first + len(run.keys)) * size)
            pages = self._restoring.read(run, self._store.memory(table.pages[first:]))
            if not pages:  # their file went, or is damaged: nothing has changed
                table.pages[first:], part.pages, table.length = part.pages, table.pages[first:], part.length
                return 0
        finally:
            self._pager.free(part)
        self._pager.shrink(table, (first + pages) * size)
        table.length = (first + pages) * size
        self._claimed(self.tree.insert(tokens, table, False, chat), chat)
        self.counts.restored_pages += pages
        return table.length - before

    def settle(self, table: PageTable, tokens: Sequence[int], chat: str | None) -> None:
        """Restoring has ended: without pages that the next token sees, `table` has what memory has."""
        if self.tree.is_torn(table):
            found = self.begin(tokens, chat)
            self._pager.free(table)
            table.pages, table.length = found.pages, found.length

    def grow(self, table: PageTable, tokens: int) -> None:
        """Make room for the first `tokens` tokens of `table`, in pages that it may write behind its length.

        Cached pages are evicted for it, and spilled before. Raises OutOfPages, with nothing changed, when
        even that is not enough.
        """
        missing = self._pager.missing(table, tokens)
        if not missing:
            return
        self._evictor.make_room(table, missing)
        copied = self._pager.grow(table, tokens)
        self._store.reserve(self._pager.high_water, self._pager.total_pages)
        if copied is not None:
            self._store.copy(copied)
            self.counts.copied_pages += 1

    def fork(self, table: PageTable) -> PageTable:
        """Another table with the same tokens, for one more answer behind them."""
        return self._pager.fork(table)

    def trim(self, table: PageTable, settled: int | None = None) -> None:
        """Give back pages that every layer's sliding window has left.

        `settled`: tokens of it that stay for sure, where not all do.
        """
        if self._window is not None:
            length = table.length if settled is None else min(settled, table.length)
            self._pager.release_before(table, length - self._window + 1)

    def keep(self, table: PageTable, tokens: Sequence[int], chat: str, whole: bool) -> None:
        """Make the pages of `table` findable, as pages of `chat`: to be called before `trim` and `free`.

        A page that is cached already takes the place of the table's equal one.

        Args:
            tokens: at least the first `table.length` ids of the sequence, whose keys and values are computed.
            whole: a partly filled last page too: the sequence ends here.
        """
        self._claimed(self.tree.insert(tokens, table, whole, chat), chat)

    def free(self, table: PageTable) -> None:
        """Give back all pages of `table`; those that were kept stay until they are evicted."""
        nodes = [node for page in table.pages if (node := self.tree.node_at(page))]
        self.tree.touch(nodes)
        if self._tier is not None:
            self._tier.use([node.key for node in nodes if node.key])
        self._pager.free(table)

    def spill(self, pages: int | None = None) -> Spilled:
        """Offer about `pages` full cached pages to the SSD (see Evictor.spill), and leave them in memory."""
        return self._evictor.spill(pages)

    def save(self, seconds: float) -> bool:
        """Put full cached pages on SSD too, for `seconds` at most; whether nothing is left to be put."""
        return self._evictor.save(seconds)

    def distrust(self, table: PageTable, tokens: Sequence[int], begin: int) -> None:
        """The pages of `table` from token `begin` on, a page's first, are wrong: they go, from SSD too.

        `table` then ends before them. Others that hold them keep them.
        """
        first = begin // self._pager.page_size
        keys = chain_keys(
            key_before(self.tree, table, tokens, first),
            [
                tokens[at : at + self._pager.page_size]
                for at in range(begin, table.length, self._pager.page_size)
            ],
        )
        for page in reversed(table.pages[first:]):
            if node := self.tree.node_at(page):
                self.tree.remove(node)
        if self._tier is not None:
            self._tier.quarantine(keys)
        self._pager.shrink(table, begin)

    def evict_all(self) -> int:
        """Evict, and spill, every page that may go. Returns how many; the arena can then be built smaller."""
        pages = self._evictor.evict_all()
        self._pager.lower_high_water()
        return pages

    def drop(self) -> None:
        """Forget everything in memory, after a device error. The caller frees what is running."""
        self.tree.clear()

    def forget(self, chat: str) -> None:
        """Drop the pages of `chat` from memory and SSD, but those that others own too.

        What runs for it keeps its pages until it is freed, and must not be kept then, or it is cached again.
        """
        self.tree.forget(chat)
        self._evictor.stays(chat)
        self._evictor.restart()
        if self._tier is not None:
            self._tier.forget_chat(chat)

    def let_go(self, chat: str, branches: Iterable[Sequence[int]], kept: Sequence[int]) -> int:
        """Drop from memory what only `branches` of `chat` hold, `kept` being the one that goes on.

        Returns the pages that are free now. They are not written to SSD; what is there of them stays.
        """
        before = self._pager.free_pages
        let_go(self.tree, self._pager.page_size, chat, branches, kept)
        self._evictor.restart()
        return self._pager.free_pages - before

    def put_away(self, chat: str, seconds: float) -> int:
        """Evict the idle pages that only `chat` owns, unless it is pinned. Returns how many are gone.

        The SSD has `seconds` to take them; what takes longer leaves when `spill` has written it.
        """
        return self._evictor.put_away(chat, seconds)

    def pin(self, chat: str, pinned: bool) -> None:
        """Whether the pages of `chat`, those of later too, must stay in memory."""
        self.tree.pin(chat, pinned)
        self._evictor.restart()

    def chats(self, running: Iterable[tuple[PageTable, str]] = ()) -> Mapping[str, ChatMemory]:
        """Where the pages of each chat are, in bytes; of `running` ones, those too that are not kept yet."""
        memory, own = self.tree.chats, self._not_kept(running)
        stored: Mapping[str, StoredBytes] = {} if self._tier is None else self._tier.chat_bytes()
        size, told = self._store.page_bytes, dict[str, ChatMemory]()
        for chat in (memory.keys() | stored.keys() | own.keys()) - {""}:
            here, there = memory.get(chat, PageCount(0, 0)), stored.get(chat)
            ssd, shared = (there.total, there.shared) if there else (0, 0)
            pages = here.pages + len(own.get(chat, ()))
            told[chat] = ChatMemory(pages * size, ssd, here.shared * size + shared)
        return told

    def check(self, tables: Iterable[PageTable]) -> None:
        """Raise AssertionError unless everything adds up, `tables` being all that are in use."""
        self._pager.check(tables)
        check_tree(self.tree, self._pager)

    def _not_kept(self, running: Iterable[tuple[PageTable, str]]) -> Mapping[str, Set[int]]:
        """Of each chat the pages of its tables that the prefix tree has not got, or not yet."""
        pages = defaultdict[str, set[int]](set)
        for table, chat in running:
            pages[chat] |= self._pager.uncached(table)
        return pages

    def _claimed(self, new: Sequence[Node], chat: str) -> None:
        """The nodes `new` are `chat`'s too, on SSD as well."""
        if new and self._tier is not None:
            self._tier.claim([node.key for node in new], chat)
