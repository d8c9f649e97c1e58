"""What leaves memory: cached pages that make room for others, offered to the SSD before."""

from __future__ import annotations

import time
from collections.abc import Sequence

from engine.kv.eviction import EvictionOrder
from engine.kv.node import Node
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import OutOfPages, Pager
from engine.kv.prefix_tree import PrefixTree
from engine.kv.ssd.runs import spill_run
from engine.kv.stores import MemoryCounts, PageStore, Room, Spilled, Tier

_EVICTED_AT_ONCE = 16
"""Most pages that make room for one that is missing."""


class Evictor:
    """Makes room in the pager at the prefix tree's cost; what it evicts is counted in `counts`."""

    def __init__(
        self, pager: Pager, tree: PrefixTree, store: PageStore, tier: Tier | None, counts: MemoryCounts
    ) -> None:
        self._pager, self._tree, self._store, self._tier, self._counts = pager, tree, store, tier, counts
        self._order = EvictionOrder(tree, pager)
        self._batch = max(1, min(_EVICTED_AT_ONCE, pager.total_pages // 64))
        self._plan: list[tuple[Node, int]] = []
        self._planned_at = -1
        self._leaving: dict[str, frozenset[Node]] = {}

    @property
    def available_pages(self) -> int:
        """Free pages, and those that may be evicted."""
        return self.available_for("")

    def available_for(self, chat: str) -> int:
        """Free pages, and those that may be evicted for `chat`: what is pinned for it, too."""
        return self._pager.free_pages + self._order.count(chat)

    def restart(self) -> None:
        """Pins or owners have changed, or nodes went in another way."""
        self._order.restart()
        self._planned_at = -1

    def make_room(self, table: PageTable, missing: int) -> None:
        """Evict until `table` can have `missing` more pages. Raises OutOfPages, with nothing changed.

        A last page that `table` shares with the tree alone need not be copied: the tree can let go of it. It
        does where the table goes on behind all that is cached in the page, so that a chat's pages stay
        neighbours; and as the last resort, which makes a lone sequence's budget the whole arena. Where
        nothing else is left, what is pinned for the chat of `table` goes.
        """
        tail, size = self._own_last(table), self._pager.page_size
        goes_on = tail is not None and len(tail.tokens) <= table.length % size
        short = missing - goes_on - self._pager.free_pages
        unpinned = self._order.count() if short > 0 else 0
        evictable = self._order.count(table.chat) if short > unpinned else unpinned
        is_last_resort = short == evictable + 1 and not goes_on
        if short > evictable and (tail is None or not is_last_resort):
            raise OutOfPages(
                f"KV memory is full: {missing} more pages are needed, and {self.available_pages} of "
                f"{self._pager.total_pages} are free or can be evicted"
            )
        if short > 0:
            self._evict(min(unpinned, max(short, self._batch)))
            self._evict(min(evictable, short) - unpinned, table.chat)
        if tail is not None and (goes_on or is_last_resort):
            self._let_go(tail)

    def evict_all(self) -> int:
        """Evict every page that may go; returns how many."""
        pages = self._order.count()
        self._evict(pages)
        return pages

    def put_away(self, chat: str, seconds: float) -> int:
        """Evict the idle pages that only `chat` owns, unless it is pinned. Returns how many.

        It waits for the SSD to take them, for `seconds` at most, and for one file. Those of a chat that takes
        longer stay, and leave when `spill` has written them, unless it is used before. What the SSD has no
        room for goes too. What runs now stays in either case.
        """
        own = self._own(chat)
        self._leaving[chat] = frozenset(own)
        return self._leave(chat) if self.save(seconds, own) else 0

    def stays(self, chat: str) -> None:
        """`chat` is used: what was put away of it and is not gone yet stays."""
        self._leaving.pop(chat, None)

    def save(self, seconds: float, nodes: Sequence[Node] | None = None) -> bool:
        """Offer full idle pages, or those of `nodes`, to the SSD, and wait for it, for `seconds` at most.

        After each file the time is looked at. Returns whether nothing is left that it might take.
        """
        if self._tier is None:
            return True
        plan, until = self._planned(nodes), time.perf_counter() + seconds
        while not (spilled := self._offer(self._tier, plan, 1)).is_all:
            left = until - time.perf_counter()
            if left <= 0:
                return False
            if not spilled.pages:
                self._tier.flush(left)
        return True

    def spill(self, pages: int | None = None) -> Spilled:
        """Offer full idle pages to the SSD, and leave them in memory: about `pages` of them.

        None is offered twice unless pages were used, or went in another way, in between: what the SSD drops
        again, it would drop once more; but while it cannot be written all are. When all are, what was put
        away leaves.
        """
        if self._tier is None:
            return Spilled(0, True)
        if self._planned_at != self._tree.clock or (not self._plan and self._tier.reason):
            self._plan, self._planned_at = self._planned(), self._tree.clock
        spilled = self._offer(self._tier, self._plan, pages)
        if spilled.is_all:
            for chat in list(self._leaving):
                self._leave(chat)
        return spilled

    def _planned(self, nodes: Sequence[Node] | None = None) -> list[tuple[Node, int]]:
        """Full idle pages, or those of `nodes`, and the pages before them, and when each was last of use.

        The next to be offered is the last: of the chat that was used last, and of a chat the beginning, so
        that what there is room for is of use.
        """
        full = [node for node in (self._tree.idle_nodes() if nodes is None else nodes) if node.key]
        full.sort(key=lambda node: (-node.stamp, node.depth))
        planned = dict[Node, int]()
        for last in full:
            path, node = list[Node](), last
            while node.parent is not None and node not in planned:
                path.append(node)
                node = node.parent
            planned.update((node, last.stamp) for node in reversed(path))
        return list(reversed(planned.items()))

    def _offer(self, tier: Tier, plan: list[tuple[Node, int]], pages: int | None) -> Spilled:
        """Offer about `pages` pages of `plan`, and take out of it what is done with."""
        taken = 0
        while plan:
            node, used = plan[-1]
            if _is_of_use(tier, node):
                if pages is not None and taken >= pages:
                    break
                offered = spill_run(tier, self._store, node, used)
                taken += offered.pages
                if offered.room is Room.LATER:
                    break
                if offered.room is Room.NEVER:  # nor for those behind, which were used before
                    plan.clear()
                    break
            plan.pop()
        return Spilled(taken, not plan)

    def _own(self, chat: str) -> list[Node]:
        """The idle nodes that only `chat` owns, unless it is pinned."""
        return [
            node
            for node in self._tree.idle_nodes()
            if node.owners == frozenset({chat}) and not self._tree.is_pinned(node)
        ]

    def _leave(self, chat: str) -> int:
        """Evict what was put away of `chat`, as far as it is still idle and its own; returns how many."""
        leaving = self._leaving.pop(chat)
        own = [node for node in self._own(chat) if node in leaving]
        for node in own:
            self._let_go(node)
        self._order.restart()
        self._counts.evicted_pages += len(own)
        return len(own)

    def _own_last(self, table: PageTable) -> Node | None:
        """The node of the page that `table` writes next, when only it and the tree hold that page."""
        index = table.length // self._pager.page_size
        page = table.pages[index] if index < len(table.pages) else NO_PAGE
        node = self._tree.node_at(page)
        if node is None or self._pager.references(page) > 2:
            return None
        return None if self._tree.is_pinned(node, table.chat) else node

    def _evict(self, pages: int, chat: str = "") -> None:
        for _ in range(pages):
            node = self._order.next(chat)
            if node is None:
                raise AssertionError("fewer pages can be evicted than were counted")
            self._let_go(node)
            self._counts.evicted_pages += 1

    def _let_go(self, node: Node) -> None:
        """Take the page of `node` out of memory; one that is full is offered to the SSD first."""
        parent = node.parent
        assert parent is not None
        if self._tier is not None and node.key and (parent.page != NO_PAGE or _is_of_use(self._tier, node)):
            spill_run(self._tier, self._store, node, node.stamp)
        self._tree.remove(node)


def _is_of_use(tier: Tier, node: Node) -> bool:
    """Whether `node` is in memory and not on SSD, and would be found there behind the page before it."""
    parent = node.parent
    if parent is None or node.page == NO_PAGE or tier.find(node.key):
        return False
    return parent.parent is None or tier.find(parent.key)
