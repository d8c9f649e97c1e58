"""The pager's pages one by one, as PageMap tells them; integers and no mlx."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.events.pages import CACHED, ON_SSD, PINNED, RUNNING, SHARED, PageMap
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree
from engine.kv.stores import Tier

SHARE = 0.01
"""Most of the time that telling of pages may take while there is something else to do."""

TIMES_KEPT = 4096

Running = Sequence[tuple[PageTable, str]]
"""Tables of running answers, each with its chat."""


class StampTimes:
    """When the clock of a prefix tree, which counts uses, showed what: at which second a page was used."""

    def __init__(self) -> None:
        self._clocks: list[int] = []
        self._times: list[float] = []

    def note(self, clock: int, now: float) -> None:
        """The tree's clock shows `clock` at `now`; to be called often."""
        if self._clocks and clock == self._clocks[-1]:
            return
        self._clocks.append(clock)
        self._times.append(now)
        if len(self._clocks) > 2 * TIMES_KEPT:
            del self._clocks[:TIMES_KEPT], self._times[:TIMES_KEPT]

    def of(self, stamp: int) -> float:
        """When a page with `stamp` was used, at the latest; one of long ago has the earliest time kept."""
        place = bisect_left(self._clocks, stamp)
        return self._times[place] if place < len(self._times) else 0.0


class PageWatch:
    """Tells of pages while somebody watches: when they have changed, and no oftener than SHARE allows."""

    def __init__(self, model: str, tree: PrefixTree, pager: Pager, tier: Tier | None) -> None:
        self._model, self._tree, self._pager, self._tier = model, tree, pager, tier
        self._times = StampTimes()
        self._told: PageMap | None = None
        self._next = 0.0
        self.is_on = False

    def switch(self, is_on: bool) -> None:
        """Whether somebody watches; who begins to hears of all pages at the next look."""
        self.is_on, self._told, self._next = is_on, None, 0.0

    def note(self, now: float) -> None:
        """Remember what the tree's clock shows, also while nobody watches."""
        self._times.note(self._tree.clock, now)

    def is_due(self, now: float, is_at_rest: bool) -> bool:
        """Whether it is time to look: at rest always."""
        return self.is_on and (is_at_rest or now >= self._next)

    def look(self, running: Running, now: float) -> PageMap | None:
        """All pages, or None where nothing has changed since they were told."""
        found, told = self._map(running, now), self._told
        if told is not None and _same(found, told):
            return None
        self._told = found
        return found

    def took(self, began: float, ended: float) -> None:
        """A look took that long: the next comes when its share of the time is low enough."""
        self._next = ended + (ended - began) / SHARE

    def _map(self, running: Running, now: float) -> PageMap:
        total, sets = self._pager.high_water, {(): 0}
        states, owner_of, used_at = (
            bytearray(total),
            array("I", bytes(4 * total)),
            array("d", bytes(8 * total)),
        )
        holders = _holders(running)
        for page in range(total):
            node, chats = self._tree.node_at(page), holders.get(page)
            if node is None and chats is None:
                continue
            state, owners = 0, set[str]()
            if node is not None:
                state |= CACHED
                owners |= node.owners
                if self._tree.is_pinned(node):
                    state |= PINNED
                if self._tier is not None and node.key and self._tier.find(node.key):
                    state |= ON_SSD
                used_at[page] = self._times.of(node.stamp)
            if chats is not None:
                state |= RUNNING
                owners.update(chats)
                used_at[page] = 0.0
            if len(owners) > 1 or (chats is not None and len(chats) > 1):
                state |= SHARED
            states[page] = state
            owner_of[page] = sets.setdefault(tuple(sorted(owners - {""})), len(sets))
        return PageMap(
            model=self._model,
            at=now,
            total_pages=self._pager.total_pages,
            states=bytes(states),
            owner_of=owner_of.tobytes(),
            owners=tuple(sets),
            used_at=used_at.tobytes(),
        )


def _holders(running: Iterable[tuple[PageTable, str]]) -> dict[int, list[str]]:
    """Of each page that runs, the chat of each table that holds it."""
    holders: dict[int, list[str]] = {}
    for table, chat in running:
        for page in table.pages:
            if page != NO_PAGE:
                holders.setdefault(page, []).append(chat)
    return holders


def _same(one: PageMap, other: PageMap) -> bool:
    return replace(one, at=other.at) == other
