"""The order of eviction, against the order that a plain list of nodes has."""

from __future__ import annotations

import random

import pytest

from engine.kv.eviction import EvictionOrder
from engine.kv.node import Node
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree

SIZE, PAGES = 2, 40


def oldest(tree: PrefixTree, pager: Pager, pinned: set[str]) -> tuple[set[Node], set[Node]]:
    """All nodes that may go, and of them those that may go first."""
    here = [node for node in tree.nodes() if node.page != NO_PAGE]
    may_go = [node for node in here if pager.references(node.page) == 1 and not node.owners & pinned]
    behind = {id(node.parent) for node in here}
    leaves = may_go if tree.window else [n for n in may_go if id(n) not in behind] or may_go
    ages = [(node.stamp, node.depth if tree.window else 0) for node in leaves]
    return set(may_go), {node for node, age in zip(leaves, ages, strict=True) if age == min(ages)}


class Grove:
    """A tree with an order of eviction, and tables on it."""

    def __init__(self, seed: int, window: int | None) -> None:
        self.random = random.Random(seed)
        self.pager = Pager(PAGES, SIZE)
        self.tree = PrefixTree(self.pager, window)
        self.order = EvictionOrder(self.tree, self.pager)
        self.tables: list[PageTable] = []
        self.pinned: set[str] = set()

    def insert(self, tokens: list[int], chat: str) -> None:
        found = self.tree.match(tokens, len(tokens))
        self.tree.touch(found.nodes)
        pages = [NO_PAGE] * found.first + found.pages[found.first :]
        table = self.pager.share(pages, found.length)
        if self.pager.missing(table, len(tokens)) <= self.pager.free_pages:
            self.pager.grow(table, len(tokens))
            table.length = len(tokens)
            self.tree.insert(tokens, table, True, chat)
        self.tables.append(table)

    def free(self) -> None:
        table = self.tables.pop(self.random.randrange(len(self.tables)))
        self.tree.touch([node for page in table.pages if (node := self.tree.node_at(page))])
        self.pager.free(table)

    def pin(self, chat: str) -> None:
        (self.pinned.discard if chat in self.pinned else self.pinned.add)(chat)
        self.tree.pin(chat, chat in self.pinned)
        self.order.restart()

    def evict(self) -> bool:
        may_go, first = oldest(self.tree, self.pager, self.pinned)
        assert self.order.count() == len(may_go)
        victim = self.order.next()
        if victim is None:
            assert not may_go
            return False
        assert victim in first
        self.tree.remove(victim)
        return True


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("seed", range(20))
def test_the_least_recently_used_goes_first(seed: int, window: int | None) -> None:
    grove = Grove(seed, window)
    random_, evicted = grove.random, 0
    for _ in range(400):
        match random_.randrange(12):
            case 0 | 1 | 2 | 3:
                tokens = [random_.randrange(2) for _ in range(random_.randint(1, 12))]
                grove.insert(tokens, random_.choice("abc"))
            case 4 | 5 | 6 if grove.tables:
                grove.free()
            case 7 if random_.random() < 0.3:
                grove.pin(random_.choice("abc"))
            case _:
                evicted += grove.evict()
    assert evicted > 30
