"""Runs between memory and SSD: aligned, only what is missing, and read as far as it is sound."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from engine.kv.node import Node
from engine.kv.page_data import LONGEST_RUN, ROOT_KEY, chain_keys, run_pages
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_tree import PrefixTree
from engine.kv.ssd.runs import Offered, StoredRun, spill_run, stored_run
from engine.kv.stores import Room
from tests.engine.kv.memory_world import RUN_PAGES, ChainStore, FakeTier

SIZE = 2


def planted(pages: int, window: int | None = None) -> tuple[PrefixTree, ChainStore, list[Node]]:
    """A tree with one sequence of `pages` full pages, and its nodes in order."""
    pager, store, table = Pager(200, SIZE), ChainStore(SIZE), PageTable()
    tree, tokens = PrefixTree(pager, window), [*range(pages * SIZE)]
    pager.grow(table, len(tokens))
    store.reserve(pages, pages)
    for page in range(pages):
        store.slots[page] = array("I", [page * SIZE, page * SIZE + 1])
    table.length = len(tokens)
    tree.insert(tokens, table, True, "chat")
    return tree, store, list(tree.nodes())


def stored_pages(tier: FakeTier) -> list[int]:
    return sorted(page.tokens[0] // SIZE for page in tier.pages.values())


@pytest.mark.parametrize(
    ("page_bytes", "pages"),
    [(1, 64), (131_072, 64), (131_073, 32), (262_144, 32), (262_145, 16), (524_288, 16), (1 << 30, 16)],
)
def test_small_pages_are_stored_in_longer_runs(page_bytes: int, pages: int) -> None:
    assert run_pages(page_bytes) == pages


def test_the_store_says_how_long_a_run_is() -> None:
    _, store, nodes = planted(2 * LONGEST_RUN + 3)
    tier, store.page_bytes = FakeTier(), 100
    assert spill_run(tier, store, nodes[LONGEST_RUN + 5], 9).pages == LONGEST_RUN
    assert stored_pages(tier) == list(range(LONGEST_RUN, 2 * LONGEST_RUN))


def test_a_run_is_what_lies_between_multiples_of_its_length() -> None:
    _, store, nodes = planted(2 * RUN_PAGES + 3)
    tier = FakeTier()
    assert spill_run(tier, store, nodes[-1], 9).pages == 3
    assert spill_run(tier, store, nodes[RUN_PAGES + 5], 9).pages == RUN_PAGES
    assert stored_pages(tier) == list(range(RUN_PAGES, 2 * RUN_PAGES + 3))
    assert spill_run(tier, store, nodes[-2], 9).pages == 0


def test_a_run_keeps_to_what_is_in_memory_and_not_on_ssd() -> None:
    tree, store, nodes = planted(8, window=4)
    tier = FakeTier()
    tree.remove(nodes[2])
    assert spill_run(tier, store, nodes[1], 9).pages == 2
    tier.pages.pop(nodes[0].key)
    assert spill_run(tier, store, nodes[0], 9).pages == 1
    assert spill_run(tier, store, nodes[5], 9).pages == 5
    assert stored_pages(tier) == [0, 1, 3, 4, 5, 6, 7]


def test_a_run_carries_content_owners_and_the_page_before_it() -> None:
    _, store, nodes = planted(RUN_PAGES + 1)
    tier = FakeTier()
    spill_run(tier, store, nodes[-1], 9)
    stored = tier.pages[nodes[-1].key]
    assert stored.owners == {"chat"}
    assert stored.data.arrays["chains"].tolist() == [[list(stored.tokens)]]


def test_pages_are_read_only_where_the_ssd_has_room_for_them_now() -> None:
    _, store, nodes = planted(2 * RUN_PAGES)
    for tier, room in ((FakeTier(is_full=True), Room.NEVER), (FakeTier(queue=0, waiting=1), Room.LATER)):
        assert spill_run(tier, store, nodes[2], 9) == Offered(0, room)
    assert store.reads == 0
    tier = FakeTier(queue=RUN_PAGES)
    assert spill_run(tier, store, nodes[2], 9) == Offered(RUN_PAGES, Room.NOW)
    assert spill_run(tier, store, nodes[-1], 9) == Offered(0, Room.LATER)
    tier.flush(0)
    assert spill_run(tier, store, nodes[-1], 9) == Offered(RUN_PAGES, Room.NOW)
    assert store.reads == 2


@pytest.mark.parametrize("stored", [LONGEST_RUN - 1, LONGEST_RUN, LONGEST_RUN + 1, 2 * LONGEST_RUN, 150])
def test_stored_pages_are_counted_however_many_there_are(stored: int) -> None:
    _, store, nodes = planted(150)
    tier = FakeTier()
    for node in nodes:
        if not tier.find(node.key):
            spill_run(tier, store, node, 9)
    for node in nodes[stored : stored + 1]:
        del tier.pages[node.key]
    tokens = [*range(150 * SIZE + 1)]
    run = stored_run(tier, ROOT_KEY, tokens, SIZE)
    assert run.keys == tuple(node.key for node in nodes[:stored])
    assert run.ids == np.array(tokens[: stored * SIZE], "<i4").tobytes()
    assert run.head(100) == StoredRun(run.keys[:100], run.ids[: 100 * 4 * SIZE])


def test_stored_pages_are_counted_up_to_the_first_that_is_missing() -> None:
    _, store, nodes = planted(6)
    tier = FakeTier()
    spill_run(tier, store, nodes[0], 9)
    tokens = [*range(13)]
    keys = chain_keys(ROOT_KEY, [tokens[begin : begin + SIZE] for begin in range(0, 12, SIZE)])
    assert stored_run(tier, ROOT_KEY, tokens, SIZE).keys == keys
    assert stored_run(tier, ROOT_KEY, tokens[:5], SIZE).keys == keys[:2]
    ids = np.array(tokens, "<i4")[4:10].tobytes()
    assert stored_run(tier, keys[1], tokens[4:], SIZE).head(3) == StoredRun(keys[2:5], ids)
    del tier.pages[keys[4]]
    assert stored_run(tier, ROOT_KEY, tokens, SIZE).keys == keys[:4]
    assert stored_run(tier, ROOT_KEY, [9, *tokens], SIZE).keys == ()
