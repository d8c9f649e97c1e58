"""Who can begin, and who gives way for it: as few of the worst-ranked as free a place and enough pages.

They are freed in a copy, to see.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import cast

from hypothesis import event, given
from hypothesis import strategies as st

from engine.commands import Generate
from engine.kv.memory import KVMemory
from engine.kv.node import Node
from engine.kv.page_table import PageTable
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
        nodes = [Node((), None, depth, b"", page) for depth, page in enumerate(self.found)]
        return Match(nodes, 0, len(nodes) * PAGE)


def scene(data: st.DataObject) -> tuple[Memory, Scheduler[Item], Item]:
    pager, scheduler = Pager(PAGES, PAGE), Scheduler[Item](data.draw(st.integers(2, 7)))
    tables = list[PageTable]()
    for _ in range(data.draw(st.integers(2, 6))):
        item = Item(
            data.draw(st.integers(0, 9)), 0, Asked(Generate("r", chat=data.draw(st.sampled_from("ab"))))
        )
        if tables and data.draw(st.booleans()):
            item.table = pager.fork(data.draw(st.sampled_from(tables)))
        more = data.draw(st.integers(1, 8)) * PAGE
        if pager.missing(item.table, item.table.length + more) <= pager.free_pages:
            pager.grow(item.table, item.table.length + more)
            item.table.length += more
        for page in item.table.pages[: data.draw(st.integers(0, 9))]:
            if not pager.is_cached(page):
                pager.cache(page)
        tables.append(item.table)
        scheduler.join(item)
    pinned = frozenset(data.draw(st.sets(st.sampled_from("ab"))))
    rank, tokens, is_rare = st.integers(0, 3), st.integers(1, PAGES * PAGE), st.integers(0, 3).map((3).__eq__)
    asking = Item(data.draw(rank), data.draw(tokens), Asked(Generate("n", n=data.draw(st.integers(1, 2)))))
    for item in (asking, data.draw(st.sampled_from(scheduler.running))):
        item.request.suspicion = Suspicion(0) if data.draw(is_rare) else None
    found, like = list[int](), data.draw(st.sampled_from(tables)).pages
    for page in like[: data.draw(st.integers(0, (asking.resident - 1) // PAGE))]:
        if not pager.is_cached(page):
            break
        found.append(page)
    for item in data.draw(st.sets(st.sampled_from(scheduler.running))) if found else ():
        scheduler.remove(item)  # what it held of them, only the tree does now
        pager.free(item.table)
    cached = [page for page in range(PAGES) if pager.is_cached(page)]
    kept = data.draw(st.frozensets(st.sampled_from(cached))) if cached else frozenset[int]()
    return Memory(pager, pinned, found, kept), scheduler, asking


@given(data=st.data())
def test_one_begins_where_it_can_and_as_few_give_way_as_help(data: st.DataObject) -> None:
    memory, scheduler, asking = scene(data)
    running = scheduler.running
    has_suspect = any(item.request.suspicion for item in running)
    trial = GOOD_STEPS * asking.request.command.n if asking.request.suspicion else 0
    beginning = Beginning(
        cast(KVMemory, memory), memory.pager, cast("Scheduler[Sequence]", cast(object, scheduler))
    )
    victims = beginning.victims(cast(Sequence, cast(object, asking)))
    behind = [
        item for item in running if item.rank > asking.rank and item.request.command.chat not in memory.pinned
    ]
    expected, is_possible = list[Item](), not running
    for count in range(0 if has_suspect else len(behind) + 1):
        given_up = behind[len(behind) - count :]
        then = deepcopy(memory)
        for item in given_up:
            then.pager.release(item.table.pages)
        then.pager.retain(memory.found)
        needed = then.pager.pages_for(asking.resident + 1) - len(memory.found) + len(running) - count + trial
        if needed <= then.available_pages:
            expected, is_possible = given_up[::-1], not running or (not count and scheduler.has_place)
            if not count and not scheduler.has_place:  # a place is all that is missing
                expected = [item for item in running if item.rank > asking.rank][-1:]
            break
    assert victims == expected
    event(f"{len(expected)} give way")
    assert beginning.is_possible(cast(Sequence, cast(object, asking))) == is_possible
