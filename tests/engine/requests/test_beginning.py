"""Who can begin, and who gives way for it: as few of the worst-ranked as free a place and enough pages.

They are freed in a copy, to see.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random
from typing import cast

from engine.commands import Generate
from engine.kv.memory import KVMemory
from engine.kv.node import Node
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_match import Match
from engine.requests.beginning import Beginning
from engine.requests.failure import GOOD_STEPS, Suspicion
from engine.requests.request import Sequence
from engine.scheduler import Scheduler

PAGE, PAGES = 4, 24


@dataclass(eq=False)
class Asked:
    command: Generate
    suspicion: Suspicion | None = None


@dataclass(eq=False)
class Item:
    """What `Beginning` and the scheduler look at of a sequence."""

    rank: float
    resident: int
    request: Asked
    table: PageTable = field(default_factory=PageTable)
    pending: int = 1
    known: tuple[int, ...] = ()
    length: int = 0


@dataclass
class Memory:
    """One whose cached pages have not left; `found` are those that who asks begins with.

    `kept` are those that a pinned chat owns.
    """

    pager: Pager
    pinned: frozenset[str]
    found: list[int]
    kept: frozenset[int]

    @property
    def available_pages(self) -> int:
        return self.pager.free_pages + len(set(self.pager.idle_pages) - self.kept)

    @property
    def tree(self) -> Memory:
        return self

    def keeps(self, chat: str) -> bool:
        return chat in self.pinned

    @property
    def has_pins(self) -> bool:
        return bool(self.kept)

    def node_at(self, page: int) -> Node | None:
        return Node((), None, 0, b"", page) if self.pager.is_cached(page) else None

    def is_pinned(self, node: Node) -> bool:
        return node.page in self.kept

    def match(self, tokens: tuple[int, ...], limit: int) -> Match:
        last = Node((), None, -1, b"")
        for depth, page in enumerate(self.found):
            last = Node((), last, depth, b"", page)
        return Match(last, last, list(self.found), 0, min(len(self.found) * PAGE, limit))


def scene(random: Random) -> tuple[Memory, Scheduler[Item], Item]:
    pager, scheduler = Pager(PAGES, PAGE), Scheduler[Item](random.randint(2, 7))
    tables = list[PageTable]()
    for _ in range(random.randint(2, 6)):
        item = Item(random.randint(0, 9), 0, Asked(Generate("r", chat=random.choice("ab"))))
        if tables and random.random() < 0.5:
            item.table = pager.fork(random.choice(tables))
        more = random.randint(1, 8) * PAGE
        if pager.missing(item.table, item.table.length + more) <= pager.free_pages:
            pager.grow(item.table, item.table.length + more)
            item.table.length += more
        for page in item.table.pages[: random.randint(0, 9)]:
            if not pager.is_cached(page):
                pager.cache([page])
        tables.append(item.table)
        scheduler.join(item)
    pinned = frozenset(chat for chat in "ab" if random.random() < 0.3)
    asked = Asked(Generate("n", n=random.randint(1, 2)))
    like = random.choice(tables).pages
    tokens = random.choice([random.randint(1, PAGES * PAGE), max(1, len(like) * PAGE)])
    asking = Item(random.randint(0, 3), tokens, asked, length=tokens)
    for item in (asking, random.choice(scheduler.running)):
        item.request.suspicion = Suspicion(0) if random.random() < 0.1 else None
    found = list[int]()
    for page in like[: random.choice([tokens // PAGE, random.randint(0, tokens // PAGE)])]:
        if not pager.is_cached(page):
            break
        found.append(page)
    for item in scheduler.running:
        if random.random() < 0.2:
            scheduler.remove(item)  # what it held, only the tree does now
            pager.free(item.table)
        elif random.random() < 0.2 and (left := random.randint(0, len(item.table.pages) // 2)):
            pager.release(item.table.pages[:left])  # by a sliding window
            item.table.pages[:left] = [NO_PAGE] * left
    cached = [page for page in range(PAGES) if pager.is_cached(page)]
    kept = frozenset(page for page in cached if random.random() < 0.2)
    return Memory(pager, pinned, found, kept), scheduler, asking


def test_one_begins_where_it_can_and_as_few_give_way_as_help() -> None:
    for number in range(1500):
        memory, scheduler, asking = scene(Random(number))
        beginning = Beginning(
            cast(KVMemory, memory), memory.pager, cast("Scheduler[Sequence]", cast(object, scheduler))
        )
        victims, is_possible = expected(memory, scheduler, asking)
        sequence = cast(Sequence, cast(object, asking))
        assert beginning.victims(sequence) == victims, f"scene {number}"
        assert beginning.is_possible(sequence) == is_possible, f"scene {number}"


def expected(memory: Memory, scheduler: Scheduler[Item], asking: Item) -> tuple[list[Item], bool]:
    """Who gives way, and whether it can begin now: seen by freeing pages in a copy."""
    running = scheduler.running
    if not running:
        return [], True
    if any(item.request.suspicion for item in running):
        return [], False
    behind = [item for item in running if item.rank > asking.rank]
    trial = GOOD_STEPS * asking.request.command.n if asking.request.suspicion else 0
    whole = memory.found[: (asking.length - 1) // PAGE]  # its last token is computed, in a page of its own
    giving = [item for item in behind if item.request.command.chat not in memory.pinned]
    for count in range(len(giving) + 1):
        given_up = giving[len(giving) - count :]
        pager = deepcopy(memory.pager)
        for item in given_up:
            pager.release([page for page in item.table.pages if page != NO_PAGE])
        pager.retain(whole)
        needed = pager.pages_for(asking.resident + 1) - len(whole) + len(running) - count + trial
        if needed <= replace(memory, pager=pager).available_pages:
            if not count and not scheduler.has_place:  # a place is all that is missing
                return behind[-1:], False
            return given_up[::-1], not count
    return [], False
