"""A world for KV memory: pages that remember which tokens wrote each of their slots, and sequences on them.

A slot holds the number of the token chain that wrote it (every token up to and including its own), so that a
page that is shared, read or restored in the wrong place is seen at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf

import numpy as np

from engine.kv.memory import KVMemory
from engine.kv.page_data import ROOT_KEY, PageData, PageMemory, SpilledRun, chain_keys, run_pages
from engine.kv.page_table import NO_PAGE, PageCopy, PageTable
from engine.kv.pager import OutOfPages, Pager
from engine.kv.stores import MemoryOf, Room

UNWRITTEN = (1 << 32) - 1

PAGE_BYTES = 400_000
"""What a page of the store says that it takes."""
RUN_PAGES = run_pages(PAGE_BYTES)


class Chains:
    """Numbers for token chains, the same number for the same chain only."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}

    def after(self, chain: int, token: int) -> int:
        return self._numbers.setdefault((chain, token), len(self._numbers) + 1)

    def of(self, tokens: Iterable[int]) -> list[int]:
        chain, numbers = 0, list[int]()
        for token in tokens:
            chain = self.after(chain, token)
            numbers.append(chain)
        return numbers


class ChainStore:
    """An arena that holds chain numbers. What was never reserved cannot be touched."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.page_bytes = PAGE_BYTES
        self.slots: list[array[int]] = []
        self.reads = 0

    def reserve(self, pages: int, limit: int) -> None:
        assert pages <= limit
        while len(self.slots) < pages:
            self.slots.append(array("I", [UNWRITTEN] * self.page_size))

    def copy(self, copied: PageCopy) -> None:
        self.slots[copied.target] = self.slots[copied.source][:]

    def read(self, pages: Sequence[int]) -> PageData:
        self.reads += 1
        slots = [slot for page in pages for slot in self.slots[page]]
        return PageData({"chains": np.array([[slots]], dtype=np.uint32)}, self.page_size)

    def memory(self, pages: Sequence[int]) -> MemoryOf:
        """The slots themselves, for each page once; nothing that was written there before is left."""
        waiting = list(pages)
        for page in waiting:
            self.slots[page][:] = array("I", [UNWRITTEN] * self.page_size)

        def memory(first: int, pages: int) -> PageMemory:
            taken, waiting[first : first + pages] = waiting[first : first + pages], [NO_PAGE] * pages
            assert NO_PAGE not in taken
            return {"chains": [memoryview(self.slots[page]).cast("B") for page in taken]}

        return memory


@dataclass(frozen=True)
class Stored:
    """A page as the fake tier keeps it."""

    tokens: tuple[int, ...]
    data: PageData
    owners: frozenset[str]
    used: int


@dataclass(frozen=True)
class StoredSum:
    total: int
    shared: int


@dataclass
class FakeTier:
    """The SSD as a dict. `is_full`: it takes nothing. `damaged`: pages that it has and cannot give.

    `holds`: most pages in it; what was used longest ago makes room. `queue`: pages that it takes until they
    are written by `flush`; None: any number.
    """

    pages: dict[bytes, Stored] = field(default_factory=dict)
    damaged: set[bytes] = field(default_factory=set)
    is_full: bool = False
    reason: str = ""
    puts: list[int] = field(default_factory=list)
    expected: list[tuple[bytes, ...]] = field(default_factory=list)
    holds: float = inf
    queue: float = inf
    waiting: int = 0
    ticks: Iterator[int] = field(default_factory=lambda: count(0, 1 << 20))

    def tick(self) -> int:
        return next(self.ticks)

    def use(self, keys: Sequence[bytes]) -> None:
        now = self.tick()
        for behind, key in enumerate(keys):
            if stored := self.pages.get(key):
                self.pages[key] = replace(stored, used=now - behind)

    def room(self, size: int, used: int) -> Room:
        pages = size // PAGE_BYTES
        newer = sum(stored.used >= used for stored in self.pages.values())
        if self.is_full or newer + pages > self.holds:
            return Room.NEVER
        return Room.NOW if self.waiting + pages <= self.queue or not self.waiting else Room.LATER

    def flush(self, timeout: float) -> bool:
        self.waiting = 0
        return True

    def find(self, key: bytes) -> bool:
        return key in self.pages

    def count(self, keys: Sequence[bytes]) -> int:
        return next((index for index, key in enumerate(keys) if key not in self.pages), len(keys))

    def put(self, run: SpilledRun) -> bool:
        assert not any(key in self.pages for key in run.keys), "a page was spilled twice"
        assert run.used is not None
        if self.room(run.data.pages * PAGE_BYTES, run.used) is not Room.NOW:
            return False
        self.puts.append(run.data.pages)
        self.waiting += run.data.pages
        for index, (key, tokens, owners) in enumerate(zip(run.keys, run.tokens, run.chats, strict=True)):
            self.pages[key] = Stored(tokens, run.data.part(index, 1), owners, run.used - index)
        while len(self.pages) > self.holds:
            del self.pages[min(self.pages, key=lambda key: self.pages[key].used)]
        return True

    def read(self, keys: Sequence[bytes], ids: bytes, memory: MemoryOf) -> int:
        """From the last to the first, and what lies behind damage too."""
        damaged = [index for index, key in enumerate(keys) if key in self.damaged]
        for index in damaged:
            self.damaged.discard(keys[index])
            self.pages.pop(keys[index], None)
        for index in reversed([index for index, key in enumerate(keys) if key in self.pages]):
            stored = self.pages[keys[index]]
            size = len(ids) // len(keys)
            assert ids[index * size : (index + 1) * size] == np.array(stored.tokens, "<i4").tobytes()
            stored.data.copy_into(memory(index, 1))
        return next((index for index, key in enumerate(keys) if key not in self.pages), len(keys))

    def expect(self, keys: Sequence[bytes]) -> None:
        assert all(len(key) == 16 for key in keys)
        self.expected.append(tuple(keys))

    def claim(self, keys: Iterable[bytes], chat: str) -> None:
        for key in keys:
            if stored := self.pages.get(key):
                self.pages[key] = replace(stored, owners=stored.owners | {chat})

    def forget_chat(self, chat: str) -> None:
        for key, stored in list(self.pages.items()):
            if stored.owners == {chat}:
                del self.pages[key]
            else:
                self.pages[key] = replace(stored, owners=stored.owners - {chat})

    def quarantine(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.pages.pop(key, None)

    def chat_bytes(self) -> Mapping[str, StoredSum]:
        chats = {chat for stored in self.pages.values() for chat in stored.owners}
        return {chat: self._sum(chat) for chat in chats}

    def _sum(self, chat: str) -> StoredSum:
        owners = [stored.owners for stored in self.pages.values() if chat in stored.owners]
        return StoredSum(10 * len(owners), 10 * sum(len(chats) > 1 for chats in owners))


@dataclass
class Running:
    """A running request: its ids, of which the first `table.length` are computed."""

    tokens: list[int]
    table: PageTable
    chat: str


@dataclass(frozen=True)
class Shape:
    """Sizes of a world."""

    pages: int
    page_size: int
    window: int | None = None
    has_tier: bool = True


class World:
    """KV memory on chain numbers, with the sequences that run on it."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.chains = Chains()
        self.store = ChainStore(shape.page_size)
        self.tier = FakeTier()
        self.pager = Pager(shape.pages, shape.page_size)
        self.memory = KVMemory(self.pager, self.store, self.tier if shape.has_tier else None, shape.window)
        self.running: list[Running] = []
        self.pinned: set[str] = set()
        self.written_over: set[tuple[int, ...]] = set()

    def begin(self, tokens: Sequence[int], chat: str = "") -> Running:
        found = self.memory.lookup(tokens)
        sequence = Running(list(tokens), self.memory.begin(tokens, chat), chat)
        assert sequence.table.length == found.cached_tokens < len(tokens)
        self.running.append(sequence)
        self.look(sequence)
        return sequence

    def compute(self, sequence: Running, tokens: int) -> bool:
        """Compute the next `tokens` ids; False, with nothing changed, where there are no pages for them."""
        table = sequence.table
        end = min(len(sequence.tokens), table.length + tokens)
        before = (list(table.pages), self.pager.free_pages, set(self.pager.idle_pages))
        pinned, own_last, lay = self.pinned_paths(), self._own_last(table), self._lying()
        try:
            self.memory.grow(table, end)
        except OutOfPages:
            assert before == (table.pages, self.pager.free_pages, set(self.pager.idle_pages))
            self._was_full(table, end)
            return False
        self.written_over |= (gone := pinned - self.pinned_paths())
        own = {path for path in gone - own_last if lay[path][1] & self.pinned == {table.chat}}
        assert gone <= own_last | own, "a pinned chat's page went, and not for that chat's own next tokens"
        others = {path for path, (page, of) in lay.items() if page in before[2] and not of & self.pinned}
        assert not own or not others & self.cached().keys(), "pages that nobody has pinned could have gone"
        numbers = self.chains.of(sequence.tokens[:end])
        size, pages, slots = self.shape.page_size, table.pages, self.store.slots
        for position in range(table.length, end):
            page = pages[position // size]
            assert self.pager.references(page) == 1, "a page of others is written"
            slots[page][position % size] = numbers[position]
        table.length = end
        self.look(sequence)
        return True

    def restore(self, sequence: Running, *, is_alone: bool = False) -> int:
        """What is read at once; with a window, all that it sees. Returns the tokens gained."""
        before, table = sequence.table.length, sequence.table
        while self.memory.restore(table, sequence.tokens, sequence.chat, is_alone=is_alone):
            assert before < table.length < len(sequence.tokens)
            if self.shape.window is None:
                break
            self.memory.check([running.table for running in self.running])
        self.memory.settle(table, sequence.tokens, sequence.chat)
        self.look(sequence)
        if self.shape.window is None:  # or what it has left may make room for what it sees
            assert table.length >= before, "what memory had is to be computed again"
        return table.length - before

    def keep(self, sequence: Running, whole: bool = True) -> None:
        before = sequence.table.pages.count(NO_PAGE)
        self.memory.keep(sequence.table, sequence.tokens, sequence.chat, whole)
        assert sequence.table.pages.count(NO_PAGE) == before
        self.look(sequence)

    def fork(self, sequence: Running) -> Running:
        table = self.memory.fork(sequence.table)
        other = Running(sequence.tokens[: table.length], table, sequence.chat)
        self.running.append(other)
        self.look(other)
        return other

    def trim(self, sequence: Running) -> None:
        self.memory.trim(sequence.table)
        self.look(sequence)

    def free(self, sequence: Running) -> None:
        self.memory.free(sequence.table)
        self.running.remove(sequence)

    def run(self, tokens: Sequence[int], chat: str = "", *, restore: bool = False) -> int:
        """A whole request: begin, restore, compute, keep, free. Returns the tokens that were not computed."""
        sequence = self.begin(tokens, chat)
        while restore and self.restore(sequence):
            pass
        cached = sequence.table.length
        assert self.compute(sequence, len(tokens))
        self.keep(sequence)
        self.free(sequence)
        return cached

    def pin(self, chat: str, pinned: bool) -> None:
        self.memory.pin(chat, pinned)
        (self.pinned.add if pinned else self.pinned.discard)(chat)

    def share(self, tokens: Sequence[int], chat: str) -> int:
        """A branch: the whole pages that there are of `tokens` are `chat`'s too, and no others."""
        size, before, tier = self.shape.page_size, self.owners(), self.tier.pages
        stored = {key for key, page in tier.items() if chat in page.owners}
        shared = self.memory.share(tokens, chat)
        ends = range(size, len(tokens) + 1, size)
        keys = chain_keys(ROOT_KEY, [tokens[end - size : end] for end in ends])
        there = [tuple(tokens[:end]) in before or key in tier for end, key in zip(ends, keys, strict=True)]
        assert shared == size * ([*there, False].index(False))
        for path, owners in self.owners().items():
            is_shared = path == tuple(tokens[: len(path)]) and not len(path) % size
            assert owners == (before[path] | {chat} if is_shared else before[path])
        now = {key for key, page in tier.items() if chat in page.owners}
        assert now == stored | (tier.keys() & set(keys[: shared // size]))
        return shared

    def let_go(self, chat: str, others: Sequence[Sequence[int]], kept: Sequence[int]) -> int:
        """Keep one branch: exactly what only the others need goes. Returns the pages that are free by it."""
        before, free, held = self.owners(), self.pager.free_pages, self.cached()
        freed = self.memory.let_go(chat, others, kept)
        after = self.owners()
        assert freed == self.pager.free_pages - free
        # Without a page of its own a path is nothing once all behind it is gone.
        before = {path: owners for path, owners in before.items() if path in held or path in after}
        for path, owners in before.items():
            assert after.get(path, frozenset()) in (owners, owners - {chat})
        for path in {path for path, owners in before.items() if after.get(path, frozenset()) != owners}:
            assert any(path == tuple(other[: len(path)]) for other in others)
            assert path != tuple(kept[: len(path)])
            assert not before[path] & self.pinned
            is_full = not len(path) % self.shape.page_size  # behind a partly filled page there is nothing
            behind = [other for other in self._owned(after, chat) if other[: len(path)] == path != other]
            assert not (is_full and behind)
        for path in self._owned(after, chat):
            if any(path == tuple(other) for other in others) and not after[path] & self.pinned:
                goes_on = any(other[: len(path)] == path != other for other in self._owned(after, chat))
                assert goes_on or path == tuple(kept[: len(path)])
        return freed

    def _owned(self, owners: Mapping[tuple[int, ...], frozenset[str]], chat: str) -> list[tuple[int, ...]]:
        return [path for path, chats in owners.items() if chat in chats]

    def owners(self) -> dict[tuple[int, ...], frozenset[str]]:
        """Whose every node of the tree is, in memory or not, by the ids down to its end."""
        paths: dict[int, tuple[int, ...]] = {}
        found: dict[tuple[int, ...], frozenset[str]] = {}
        for node in self.memory.tree.nodes():
            path = paths[id(node)] = paths.get(id(node.parent), ()) + node.tokens
            found[path] = node.owners
        return found

    def drop(self) -> None:
        """As after a device error: everything in the arena is gone."""
        self.memory.drop()
        for sequence in list(self.running):
            self.free(sequence)
        self.store.slots.clear()

    def look(self, sequence: Running) -> None:
        """Every token that the next one sees is the right one."""
        table, size, slots = sequence.table, self.shape.page_size, self.store.slots
        window = self.shape.window
        first = 0 if window is None else max(0, table.length - window + 1)
        numbers = self.chains.of(sequence.tokens[: table.length])
        for position in range(first, table.length):
            assert slots[table.pages[position // size]][position % size] == numbers[position]

    def check(self) -> None:
        """All books are right, and every sequence sees its own tokens."""
        self.memory.check([sequence.table for sequence in self.running])
        for sequence in self.running:
            self.look(sequence)

    @contextmanager
    def keeps_pins(self) -> Iterator[None]:
        """What pinned chats own stays in memory meanwhile, be it as a part of a fuller page.

        But for what goes for such a chat itself: a last page in which it goes on, and others where there is
        nothing else (see `Evictor.make_room`).
        """
        before = self.pinned_paths()
        self.written_over.clear()
        yield
        after = self.pinned_paths()
        assert all(any(path == other[: len(path)] for other in after) for path in before - self.written_over)

    def _own_last(self, table: PageTable) -> set[tuple[int, ...]]:
        """The path of the page that `table` writes next, if it has that alone and no other has it pinned."""
        index = table.length // self.shape.page_size
        page = table.pages[index] if index < len(table.pages) else NO_PAGE
        held = [running for running in self.running if page in running.table.pages]
        if page == NO_PAGE or len(held) > 1:
            return set()
        return {
            path
            for path, (at, owners) in self._lying().items()
            if at == page and owners & self.pinned <= {table.chat}
        }

    def pinned_paths(self) -> set[tuple[int, ...]]:
        return {path for path, owners in self.cached().items() if owners & self.pinned}

    def cached(self) -> dict[tuple[int, ...], frozenset[str]]:
        """Every page in memory: the ids from the sequence's beginning to the page's end, and its owners."""
        return {path: owners for path, (_, owners) in self._lying().items()}

    def _lying(self) -> dict[tuple[int, ...], tuple[int, frozenset[str]]]:
        """The same with the page that each lies in."""
        found: dict[tuple[int, ...], tuple[int, frozenset[str]]] = {}
        paths: dict[int, tuple[int, ...]] = {}
        for node in self.memory.tree.nodes():
            path = paths[id(node)] = paths.get(id(node.parent), ()) + node.tokens
            if node.page != NO_PAGE:
                found[path] = node.page, node.owners
        return found

    def longest_cached(self, tokens: Sequence[int]) -> int:
        """The longest beginning of `tokens` without the last whose needed pages are all cached, by trial."""
        size, window, paths = self.shape.page_size, self.shape.window, list(self.cached())
        for length in range(len(tokens) - 1, 0, -1):
            first = 0 if window is None else max(0, length - window + 1) // size
            ends = [min(length, end) for end in range((first + 1) * size, length + size, size)]
            if all(any(self._holds(path, tokens, end) for path in paths) for end in ends):
                return length
        return 0

    def _holds(self, path: tuple[int, ...], tokens: Sequence[int], end: int) -> bool:
        """Whether the last page of `path` holds token end-1 of `tokens`, behind the same tokens."""
        in_page = (len(path) - 1) // self.shape.page_size == (end - 1) // self.shape.page_size
        return in_page and path[:end] == tuple(tokens[:end])

    def _was_full(self, table: PageTable, end: int) -> None:
        """OutOfPages was right: fewer pages are free or may go than are missing."""
        held = {page for running in self.running for page in running.table.pages if page != NO_PAGE}
        pinned = {page for page in range(self.shape.pages) if self._is_pinned(page, besides=table.chat)}
        assert self.pager.missing(table, end) > self.shape.pages - len(held | pinned)
        if len(self.running) == 1 and not pinned:
            in_window = sum(page == NO_PAGE for page in table.pages)
            assert self.pager.pages_for(end) - in_window > self.shape.pages

    def _is_pinned(self, page: int, besides: str) -> bool:
        node = self.memory.tree.node_at(page)
        return node is not None and bool(node.owners & self.pinned - {besides})
