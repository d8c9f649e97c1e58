"""KV memory with sliding windows: what the next token sees is kept, read back and counted; the rest goes."""

from __future__ import annotations

import pytest

from engine.kv import restoring
from engine.kv.page_table import NO_PAGE
from engine.kv.restoring import Ahead
from engine.kv.stores import Found
from tests.engine.kv.memory_world import RUN_PAGES
from tests.engine.kv.small_worlds import SIZE, prompt, world_of


def test_of_a_chat_with_a_window_only_what_it_still_sees_is_read() -> None:
    world = world_of(40, window=10, has_tier=True)
    world.run(prompt(36 * SIZE), "chat")
    world.memory.evict_all()
    told = world.memory.lookup(prompt(36 * SIZE + 1))
    assert told == Found(0, 36 * SIZE, 33 * SIZE)  # 9 tokens before the next one, in 3 pages
    running = world.begin(prompt(36 * SIZE + 1), "later")
    assert world.restore(running) == 36 * SIZE
    assert world.memory.counts.restored_pages == 3
    assert world.compute(running, 1)
    world.keep(running)
    world.check()
    assert all({"chat", "later"} <= stored.owners for stored in world.tier.pages.values())


def test_what_a_window_sees_is_told_as_it_comes_and_counts_when_all_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restoring, "BYTES_AT_ONCE", 0)
    monkeypatch.setattr(restoring, "RUNS_AT_ONCE", 1)
    pages = 2 * RUN_PAGES + 8
    world = world_of(2 * pages, window=(RUN_PAGES + 4) * SIZE, has_tier=True)
    world.run(prompt(pages * SIZE))
    world.memory.evict_all()
    table, tokens = world.memory.begin(prompt(pages * SIZE + 1), ""), prompt(pages * SIZE + 1)
    first = RUN_PAGES + 4
    told = [world.memory.ahead(table, tokens, is_alone=False)]
    while world.memory.restore(table, tokens, "", is_alone=False):
        told.append(world.memory.ahead(table, tokens, is_alone=False))
    assert told == [Ahead(0, first, pages), Ahead(0, 2 * RUN_PAGES, pages), Ahead(pages, pages, pages)]
    world.memory.free(table)
    world.check()


@pytest.mark.parametrize("window", [None, 2 * SIZE])
def test_the_last_token_of_a_prompt_does_not_come_back(window: int | None) -> None:
    world = world_of(16, window=window, has_tier=True)
    world.run(prompt(4 * SIZE))
    world.memory.evict_all()
    found = world.memory.lookup(prompt(4 * SIZE))
    assert (found.cached_tokens, found.stored_tokens) == (0, 3 * SIZE)
    assert world.restore(world.begin(prompt(4 * SIZE))) == 3 * SIZE
    world.check()


def test_of_a_chat_with_a_window_nothing_is_fetched_ahead() -> None:
    for window in (None, 10):
        world = world_of(40, window=window, has_tier=True)
        world.run(prompt(20 * SIZE))
        world.memory.evict_all()
        world.memory.fetch(prompt(20 * SIZE + 1))
        assert [len(keys) for keys in world.tier.expected] == ([20] if window is None else [])


def test_a_chat_with_a_window_that_cannot_be_read_whole_is_computed_behind_what_memory_has() -> None:
    world = world_of(40, window=30, has_tier=True)
    world.run(prompt(30 * SIZE))
    world.memory.evict_all()
    world.run(prompt(2 * SIZE))
    world.tier.damaged.add(list(world.tier.pages)[28])
    running = world.begin(prompt(30 * SIZE + 1))
    assert running.table.length == 2 * SIZE
    assert world.restore(running) == 0
    assert running.table.length == 2 * SIZE
    assert world.memory.counts.restored_pages == 6  # 22 to the damage: of no use without 28 and 29
    assert world.restore(running) == 26 * SIZE  # what was stored before the damage
    world.check()


@pytest.mark.parametrize("window", [2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9, 23])
def test_with_a_window_exactly_the_pages_that_the_next_token_sees_are_kept(window: int, length: int) -> None:
    world = world_of(32, window)
    running = world.begin(prompt(30))
    for _ in range(length):
        world.compute(running, 1)
        world.keep(running)
        world.trim(running)
    needed = {position // SIZE for position in range(max(0, length - window + 1), length)}
    assert {index for index, page in enumerate(running.table.pages) if page != NO_PAGE} == needed
    world.free(running)
    assert world.memory.lookup(prompt(30)) == Found(length, 0)
    world.check()


def test_with_a_window_the_pages_that_left_it_go_first_and_the_end_is_still_found() -> None:
    world = world_of(12, window=8)
    running = world.begin(prompt(40))
    for _ in range(10):
        world.compute(running, 4)
        world.keep(running, whole=False)
        world.trim(running)
    world.free(running)
    assert world.compute(world.begin(prompt(36, 1)), 36)  # leaves three pages
    again = world.begin(prompt(41))
    assert (again.table.length, again.table.pages[:8]) == (40, [NO_PAGE] * 8)
    world.check()


def test_with_a_window_a_long_sequence_needs_few_pages() -> None:
    world = world_of(3, window=6)
    running = world.begin(prompt(200))
    while running.table.length < 200:
        assert world.compute(running, 3)
        world.keep(running, whole=False)
        world.trim(running)
    world.check()
