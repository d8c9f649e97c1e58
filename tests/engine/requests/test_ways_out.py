"""Ways out beside pages that are pinned for others, which the prompt may begin with: each of them helps."""

from __future__ import annotations

import random
from itertools import groupby

import pytest

from engine import WayOut
from engine.errors import Refused
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree
from engine.requests.admission import Capacity, check_capacity

CHATS = "abc"


class World:
    """Chats of random words in a few pages, some of them pinned; a window has left pages of some."""

    def __init__(self, seed: int, window: int | None) -> None:
        self.random = random_ = random.Random(seed)
        size = random_.choice([1, 2, 4])
        self.pager = Pager(random_.randint(4, 24), size)
        self.tree = PrefixTree(self.pager, window)
        self.most_resident = 1 << 20 if window is None else window + random_.choice([0, 4]) + size
        self.known = list[list[int]]()
        for _ in range(random_.randint(1, 5)):
            self._insert()
        for node in list(self.tree.nodes()) if window else ():
            if node.page != NO_PAGE and random_.random() < 0.25:
                self.tree.remove(node)
        for chat in CHATS:
            self.tree.pin(chat, random_.random() < 0.6)

    def words(self, most: int) -> list[int]:
        """Some that a chat begins with, and others."""
        begun = list(self.random.choice(self.known)) if self.known else []
        del begun[self.random.randint(0, len(begun)) :]
        return begun + [self.random.randrange(1000) for _ in range(self.random.randint(1, most))]

    def ways_out(self, chat: str, prompt: list[int], answers: int) -> tuple[WayOut, ...] | None:
        """None where it is held."""
        pages, resident = self.pager.total_pages, min(len(prompt), self.most_resident)
        pinned, shared, shared_tokens = self.tree.held_for_pins(chat, prompt, resident)
        capacity = Capacity(pages, self.pager.page_size, pinned, pages, shared, shared_tokens)
        try:
            check_capacity(resident, answers, capacity, len(prompt) - resident)
        except Refused as error:
            return error.refusal.ways_out
        return None

    def is_held(self, chat: str, prompt: list[int], answers: int, taken: list[WayOut]) -> bool:
        """Whether it is, once these ways were taken together."""
        unpinned = [way.chat for way in taken if way.kind == "evict"]
        for way in taken:
            answers = way.amount if way.kind == "fewer answers" else answers
            prompt = prompt[: -way.amount] if way.kind == "shorten" else prompt
        for other in unpinned:
            self.tree.pin(other, False)
        is_held = prompt != [] and self.ways_out(chat, prompt, answers) is None
        for other in unpinned:
            self.tree.pin(other, True)
        return is_held

    def _insert(self) -> None:
        tokens = self.words(40)
        found = self.tree.match(tokens, len(tokens))
        pages = [NO_PAGE] * found.first + found.pages[found.first :]
        table = self.pager.share(pages, found.length) if found.length else PageTable()
        if self.pager.missing(table, len(tokens)) <= self.pager.free_pages:
            self.pager.grow(table, len(tokens))
            table.length = len(tokens)
            self.tree.insert(tokens, table, True, self.random.choice(CHATS))
            self.known.append(tokens)
        self.pager.free(table)


def together(ways: tuple[WayOut, ...]) -> list[list[WayOut]]:
    """Those that help together only, as one."""
    places = [sum(not way.needs_next for way in ways[:place]) for place in range(len(ways))]
    return [[ways[place] for place in group] for _, group in groupby(range(len(ways)), places.__getitem__)]


@pytest.mark.parametrize("window", [None, 3, 6, 10])
def test_each_way_out_lets_the_request_run(window: int | None) -> None:
    refused = 0
    for seed in range(300):
        world = World(seed, window)
        for _ in range(20):
            chat, answers = world.random.choice("abcd"), world.random.choice([1, 1, 2, 3])
            prompt = world.words(40)
            ways = world.ways_out(chat, prompt, answers)
            refused += ways is not None
            for taken in together(ways or ()):
                assert world.is_held(chat, prompt, answers, taken), (seed, prompt, taken)
    assert refused > 500
