"""KV memory: what is computed once is found again, in memory or on SSD, and nothing else ever is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.events.cache import ChatMemory
from engine.kv import prefix_tree
from engine.kv.node import Node
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import OutOfPages
from engine.kv.prefix_tree import PrefixTree
from engine.kv.stores import Found, MemoryCounts, Spilled
from tests.engine.kv.memory_world import PAGE_BYTES, RUN_PAGES, Shape, World

SIZE = 4


def world_of(pages: int, window: int | None = None, *, has_tier: bool = False) -> World:
    return World(Shape(pages, SIZE, window, has_tier))


def prompt(length: int, seed: int = 0) -> list[int]:
    """Ids that no other seed's prompt begins with."""
    return [1000 * seed + 7 + index for index in range(length)]


# Prefix hits


def test_a_fully_cached_prompt_still_computes_its_last_token() -> None:
    for length in range(1, 10):
        world = world_of(8)
        world.run(prompt(length))
        assert world.run(prompt(length)) == length - 1


def test_the_next_turn_computes_only_what_is_new() -> None:
    world = world_of(32)
    world.run(prompt(41), "chat")
    assert world.run(prompt(50), "chat") == 41


def test_an_edit_inside_a_page_keeps_the_part_of_the_page_before_it() -> None:
    world = world_of(32)
    world.run(prompt(40))
    edited = [*prompt(22), 5, 5, 5, 5, 5]
    assert world.run(edited) == 22
    assert world.memory.counts.copied_pages == 1
    assert world.run(prompt(40)) == 39  # the branch that was left is still whole
    world.check()


def test_what_is_found_is_the_longest_of_several_branches() -> None:
    world = world_of(32)
    world.run([1, 2, 3, 4, 5, 6, 9, 9])
    world.run([1, 2, 3, 4, 5, 6, 7, 9])
    world.run([1, 2, 3, 4, 5, 9, 9, 9])
    assert world.memory.lookup([1, 2, 3, 4, 5, 6, 7, 8, 8]) == Found(7, 0)


def test_looking_up_changes_nothing() -> None:
    world = world_of(4, has_tier=True)
    world.run(prompt(8), "a")
    world.run(prompt(8, 1), "b")
    before, order = replace(world.memory.counts), [(n.stamp, n.owners) for n in world.memory.tree.nodes()]
    assert world.memory.lookup(prompt(9)) == Found(8, 0)
    assert (world.memory.counts, [(n.stamp, n.owners) for n in world.memory.tree.nodes()]) == (before, order)
    assert world.pager.pages_used == 0


def test_counts_are_right_after_a_prefix_hit() -> None:
    world = world_of(16)
    world.run(prompt(16))
    running = world.begin(prompt(30))
    assert (running.table.length, world.pager.pages_used, world.memory.cached_pages) == (16, 4, 0)
    world.compute(running, 30)
    assert (world.pager.pages_used, world.memory.available_pages) == (8, 8)
    world.free(running)
    assert (world.pager.pages_used, world.memory.cached_pages, world.memory.available_pages) == (0, 4, 16)


def test_hits_and_misses_run_side_by_side() -> None:
    world = world_of(32)
    world.run(prompt(20))
    hit, miss, part = world.begin(prompt(30)), world.begin(prompt(30, 1)), world.begin([*prompt(10), 5, 5])
    assert [running.table.length for running in (hit, miss, part)] == [20, 0, 10]
    for _ in range(10):
        for running in (hit, miss, part):
            assert world.compute(running, 3)
    for running in (miss, part, hit):
        world.keep(running)
        world.free(running)
        world.check()


# Hashes


def test_sequences_with_the_same_hash_are_told_apart_by_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(parent: bytes, tokens: object) -> bytes:
        return b"0123456789abcdef"

    monkeypatch.setattr(prefix_tree, "chain_key", same)
    world = world_of(16)
    world.run(prompt(12))
    assert world.run(prompt(12, 1)) == 0
    assert world.run(prompt(12)) == 11


def test_nothing_leads_to_an_evicted_page() -> None:
    world = world_of(4)
    world.run(prompt(15))
    assert world.run(prompt(15, 1)) == 0
    assert world.memory.lookup(prompt(16)) == Found(0, 0)
    assert world.run(prompt(15)) == 0
    world.check()


# Sharing


def test_pages_in_use_are_never_evicted_under_pressure() -> None:
    world = world_of(8)
    world.run(prompt(12))
    running = world.begin(prompt(13))
    assert not world.compute(world.begin(prompt(24, 1)), 24)
    assert world.compute(world.begin(prompt(16, 2)), 16)
    world.compute(running, 1)
    world.check()


def test_a_prefill_in_chunks_goes_on_while_another_request_inserts_the_same() -> None:
    world = world_of(16)
    first, second = world.begin(prompt(24)), world.begin(prompt(24))
    for _ in range(6):
        for running in (first, second):
            world.compute(running, 4)
            world.keep(running, whole=False)
            world.check()
    assert first.table.pages == second.table.pages  # one copy in memory, not two
    assert world.pager.pages_used == 6
    world.free(first)
    assert world.compute(second, 0)
    world.free(second)
    world.check()


def test_a_request_that_shares_a_growing_page_never_sees_its_new_tokens() -> None:
    world = world_of(16)
    first = world.begin(prompt(10))
    world.compute(first, 10)
    world.keep(first)
    second = world.begin([*prompt(10), 5, 6])
    first.tokens += [8, 9]
    world.compute(first, 2)
    world.compute(second, 2)
    world.check()
    assert world.memory.counts.copied_pages == 1  # who comes last goes on where it is


def test_a_chat_s_next_turns_go_on_in_its_last_page() -> None:
    world = world_of(16)
    for length in range(10, 60, 7):
        running = world.begin(prompt(length), "chat")
        world.compute(running, length)
        world.keep(running)
        assert running.table.pages == list(range(len(running.table.pages)))
        world.free(running)
    assert world.memory.counts == MemoryCounts()


def test_a_partly_filled_page_is_copied_when_only_a_part_of_it_is_shared() -> None:
    world = world_of(16)
    world.run(prompt(11))
    assert world.run([*prompt(10), 5]) == 10
    assert world.memory.counts.copied_pages == 1
    assert world.memory.lookup(prompt(12)) == Found(11, 0)


def test_several_answers_share_the_prompt_and_each_its_own_end() -> None:
    world = world_of(16)
    first = world.begin(prompt(10))
    world.compute(first, 10)
    answers = [first, world.fork(first), world.fork(first)]
    assert world.pager.pages_used == 3
    for token, answer in enumerate(answers):
        answer.tokens += [token] * 7
        world.compute(answer, 7)
    assert world.pager.pages_used == 2 + 3 * 3
    assert world.memory.counts.copied_pages == 2  # the last one writes in place
    for answer in answers:
        world.keep(answer)
        world.free(answer)
    world.check()
    assert world.memory.lookup([*prompt(10), 1, 1, 1, 1, 4]) == Found(14, 0)


def test_slots_that_nobody_wrote_are_neither_shared_nor_spilled() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(6))
    assert world.memory.lookup([*prompt(6), 5, 5, 5]) == Found(6, 0)
    assert world.memory.evict_all() == 2
    assert [stored.tokens for stored in world.tier.pages.values()] == [tuple(prompt(4))]


# Running out


@pytest.mark.parametrize("pages", range(1, 9))
def test_a_lone_request_may_use_every_page_whatever_is_cached(pages: int) -> None:
    for cut in range(1, pages * SIZE):
        world = world_of(pages, has_tier=True)
        world.run(prompt(pages * SIZE))
        assert world.run([*prompt(cut), *[5] * (pages * SIZE - cut)]) == cut
        assert world.memory.counts.copied_pages == 0  # there was no page to copy to
        found = world.memory.lookup([*prompt(pages * SIZE), 0])
        assert found.cached_tokens + found.stored_tokens == pages * SIZE
        world.check()


def test_growth_that_cannot_be_is_refused_and_changes_nothing() -> None:
    world = world_of(4)
    world.run(prompt(8), "a")
    running = world.begin(prompt(20, 1))
    before = world.cached()
    with pytest.raises(OutOfPages, match="5 more pages are needed, and 4 of 4 are free or can be evicted"):
        world.memory.grow(running.table, 20)
    assert (world.cached(), running.table) == (before, PageTable())
    world.compute(running, 16)
    world.check()


def test_eviction_takes_the_least_recently_used_leaf_first() -> None:
    world = world_of(10)
    world.run(prompt(12, 1))
    world.run(prompt(12, 2))
    world.run(prompt(12, 3))
    world.run(prompt(8, 1))  # its first two pages are used again, the third is not
    world.compute(world.begin(prompt(4, 9)), 4)
    evicted: list[tuple[int, ...]] = []
    before = set(world.cached())
    for tokens in range(4, 37, 4):
        world.compute(world.begin(prompt(4, 10 + tokens)), 4)
        now = set(world.cached())
        evicted += before - now
        before = now
    order = [(1, 12), (2, 12), (2, 8), (2, 4), (3, 12), (3, 8), (3, 4), (1, 8), (1, 4)]
    assert evicted == [tuple(prompt(length, seed)) for seed, length in order]


def test_pinned_pages_stay_and_are_no_room_for_others() -> None:
    world = world_of(4, has_tier=True)
    world.pin("a", True)
    world.run(prompt(8), "a")
    assert world.memory.available_pages == 2
    assert not world.compute(world.begin(prompt(12, 1)), 12)
    assert world.memory.evict_all() == 0
    assert world.memory.lookup(prompt(9)) == Found(8, 0)
    world.pin("a", False)
    assert world.memory.evict_all() == 2


def test_eviction_reaches_a_page_whose_follower_must_stay() -> None:
    world = world_of(6)
    first = world.begin(prompt(8))
    world.compute(first, 8)
    second = world.fork(first)  # on two pages of its own
    world.run(prompt(4))
    world.keep(first)  # its first page is now the cached one, its second is cached behind that
    world.free(first)
    assert (world.memory.cached_pages, world.pager.references(second.table.pages[1])) == (1, 2)
    assert world.compute(world.begin(prompt(16, 1)), 16)
    world.check()
    world.keep(second)
    assert world.memory.lookup(prompt(9)) == Found(8, 0)


# Chats


def test_a_chat_is_forgotten_but_not_what_others_share() -> None:
    world = world_of(16, has_tier=True)
    world.run(prompt(16), "a")
    world.run([*prompt(8), 5, 5, 5, 5], "b")
    world.memory.spill()
    world.memory.forget("a")
    assert world.memory.lookup(prompt(17)) == Found(8, 0)
    assert world.memory.lookup([*prompt(8), 5, 5, 5, 5, 5]) == Found(12, 0)
    assert world.memory.chats() == {"b": ChatMemory(3 * PAGE_BYTES, 30, 0)}
    world.check()


def test_a_chat_is_forgotten_while_it_runs() -> None:
    world = world_of(8)
    running = world.begin(prompt(8), "a")
    world.compute(running, 8)
    world.keep(running)
    world.memory.forget("a")
    assert world.memory.chats() == {}
    assert world.memory.lookup(prompt(9)) == Found(0, 0)
    world.check()
    world.free(running)
    assert world.pager.free_pages == 8


def test_a_forgotten_page_that_two_requests_hold_is_cached_as_what_is_in_it() -> None:
    world = world_of(8)
    whole = world.begin(prompt(8), "a")
    world.compute(whole, 8)
    world.keep(whole)
    part = world.begin([*prompt(6), 5], "b")
    world.memory.forget("a")
    world.memory.forget("b")
    world.keep(part)
    world.keep(whole)
    world.check()
    assert world.memory.lookup(prompt(9)) == Found(8, 0)


def test_bytes_of_chats_are_exact_through_sharing_eviction_and_restore() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(8), "a")
    world.run(prompt(14), "b")
    world.run(prompt(8), "")  # nobody's request shares too
    assert world.memory.chats() == {
        "a": ChatMemory(2 * PAGE_BYTES, 0, 2 * PAGE_BYTES),
        "b": ChatMemory(4 * PAGE_BYTES, 0, 2 * PAGE_BYTES),
    }
    world.memory.evict_all()
    assert world.memory.chats() == {"a": ChatMemory(0, 20, 20), "b": ChatMemory(0, 30, 20)}
    world.run(prompt(9), "a", restore=True)
    assert world.memory.chats() == {"a": ChatMemory(3 * PAGE_BYTES, 20, 20), "b": ChatMemory(0, 30, 20)}
    world.check()


def test_a_chat_has_the_pages_that_its_running_answers_hold_each_counted_once() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(8), "a")
    running = world.begin(prompt(14), "b")  # two pages of it are cached
    world.compute(running, 14)
    world.fork(running)  # and holds the same pages

    def told() -> dict[str, ChatMemory]:
        return dict(world.memory.chats((one.table, one.chat) for one in world.running))

    shared = ChatMemory(2 * PAGE_BYTES, 0, 2 * PAGE_BYTES)
    assert told() == {"a": shared, "b": ChatMemory(4 * PAGE_BYTES, 0, 2 * PAGE_BYTES)}
    world.keep(running)
    assert told() == {"a": shared, "b": ChatMemory(4 * PAGE_BYTES, 0, 2 * PAGE_BYTES)}
    nobodys = world.begin(prompt(4, 7), "")
    world.compute(nobodys, 4)
    assert told().keys() == {"a", "b"}
    world.check()


def test_a_page_on_ssd_gets_its_new_owner() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(8), "a")
    world.memory.spill()
    world.run(prompt(8), "b")
    assert world.memory.chats()["b"].ssd_bytes == 20
    world.memory.forget("a")
    assert world.memory.chats() == {"b": ChatMemory(2 * PAGE_BYTES, 20, 0)}


# SSD


def test_what_was_evicted_comes_back_from_ssd() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(30))
    assert world.memory.evict_all() == 8
    assert world.memory.lookup(prompt(30)) == Found(0, 28)
    assert world.run(prompt(30), restore=True) == 28
    assert world.memory.counts == MemoryCounts(8, 7, 0)


def test_a_partly_matched_page_gives_way_to_the_whole_one_on_ssd() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(16))
    world.memory.evict_all()
    world.run([*prompt(6), 5, 5])
    assert world.memory.lookup(prompt(17)) == Found(6, 10)
    assert world.run(prompt(17), restore=True) == 16
    world.check()


def test_a_run_is_read_once_and_written_once() -> None:
    world = world_of(40, has_tier=True)
    world.run(prompt(36 * SIZE))
    world.run(prompt(40 * SIZE, 1))
    assert sorted(world.tier.puts) == [4, RUN_PAGES, RUN_PAGES]
    assert world.store.reads == 3


def test_idle_spilling_writes_the_latest_first_and_only_once() -> None:
    world = world_of(16, has_tier=True)
    world.run(prompt(16, 1))
    world.run(prompt(16, 2))
    assert world.memory.spill(1).pages == 4
    assert {stored.tokens[0] // 1000 for stored in world.tier.pages.values()} == {2}
    assert (world.memory.spill(), world.memory.spill()) == (Spilled(4, True), Spilled(0, True))
    world.memory.evict_all()
    assert len(world.tier.puts) == 2


def test_of_what_does_not_fit_on_ssd_the_latest_is_written_once_and_of_a_chat_its_beginning() -> None:
    world = world_of(8 * RUN_PAGES, has_tier=True)
    world.tier.holds = 3 * RUN_PAGES
    long, old = prompt(5 * RUN_PAGES * SIZE, 1), prompt(2 * RUN_PAGES * SIZE, 2)
    world.run(old)
    world.run(long)
    for _ in range(3):
        world.run(prompt(1, 3))  # a rest ends
        while not world.memory.spill(1).is_all:
            pass
        assert sum(world.tier.puts) == 3 * RUN_PAGES
    world.memory.evict_all()
    assert sum(world.tier.puts) == 3 * RUN_PAGES
    assert world.memory.lookup([*long, 1]) == Found(0, 3 * RUN_PAGES * SIZE)
    assert world.memory.lookup([*old, 1]) == Found(0, 0)
    world.check()


def test_what_is_evicted_takes_the_room_of_what_was_used_before_it_only() -> None:
    world = world_of(3 * RUN_PAGES, has_tier=True)
    world.tier.holds = 2 * RUN_PAGES
    chats = [prompt(RUN_PAGES * SIZE, seed) for seed in range(4)]
    for chat in chats[:2]:
        world.run(chat)
        world.memory.spill()
    world.run(chats[0])  # from memory: what is stored of it is used too
    world.run(chats[2])
    world.memory.spill()
    assert [world.memory.lookup([*chat, 0]).cached_tokens > 0 for chat in chats[:3]] == [True] * 3
    world.run(chats[3])  # chat 1 goes, and was used before both that are stored
    assert world.memory.lookup([*chats[1], 0]) == Found(0, 0)
    world.run(prompt(3 * RUN_PAGES * SIZE, 9))
    assert [world.memory.lookup([*chat, 0]).stored_tokens > 0 for chat in chats] == [False, False, True, True]
    world.check()


def test_behind_what_the_ssd_has_no_room_for_nothing_is_written() -> None:
    world = world_of(4 * RUN_PAGES, window=10, has_tier=True)
    world.tier.is_full = True
    running = world.begin(prompt(3 * RUN_PAGES * SIZE))
    world.compute(running, RUN_PAGES * SIZE)
    world.keep(running, whole=False)
    world.trim(running)
    world.memory.evict_all()
    world.tier.is_full = False
    world.compute(running, 2 * RUN_PAGES * SIZE)
    world.keep(running)
    world.free(running)
    world.memory.spill()
    world.memory.evict_all()
    assert world.tier.puts == []


def test_a_page_that_had_to_wait_for_others_is_offered_again_when_it_leaves() -> None:
    world = world_of(RUN_PAGES, has_tier=True)
    world.tier.queue, world.tier.waiting = RUN_PAGES, RUN_PAGES
    world.run(prompt(RUN_PAGES * SIZE))
    world.run(prompt(4 * SIZE, 1))  # the end of the first goes, and there is no time to write it
    assert (world.tier.puts, world.store.reads) == ([], 0)
    world.tier.flush(0)
    world.run(prompt(8 * SIZE, 2))
    assert world.memory.lookup(prompt(RUN_PAGES * SIZE)).stored_tokens == (RUN_PAGES - 4) * SIZE - 4 * SIZE
    world.check()


def test_a_chat_that_is_put_away_leaves_when_the_ssd_has_taken_it_and_not_before() -> None:
    world = world_of(4 * RUN_PAGES, has_tier=True)
    chat, other = prompt(3 * RUN_PAGES * SIZE), prompt(RUN_PAGES * SIZE, 1)
    world.tier.queue = RUN_PAGES
    world.run(chat, "mine")
    world.run(other, "other")
    assert world.memory.put_away("mine", 0.0) == 0
    assert world.memory.lookup([*chat, 0]) == Found(3 * RUN_PAGES * SIZE, 0)
    while not world.memory.spill().is_all:
        world.tier.flush(1)
    assert world.memory.lookup([*chat, 0]) == Found(0, 3 * RUN_PAGES * SIZE)
    assert world.memory.lookup([*other, 0]) == Found(RUN_PAGES * SIZE, 0)
    world.check()


def test_a_chat_that_is_used_again_before_it_has_left_stays() -> None:
    world = world_of(4 * RUN_PAGES, has_tier=True)
    chat = prompt(3 * RUN_PAGES * SIZE)
    world.tier.queue = RUN_PAGES
    world.run(chat, "mine")
    assert world.memory.put_away("mine", 0.0) == 0
    world.run([*chat, 1], "mine")
    while not world.memory.spill().is_all:
        world.tier.flush(1)
    assert world.memory.lookup([*chat, 0]) == Found(3 * RUN_PAGES * SIZE, 0)


@pytest.mark.parametrize("is_full", [True, False])
def test_what_is_put_away_waits_for_the_ssd_where_it_takes_any(is_full: bool) -> None:
    world = world_of(4 * RUN_PAGES, has_tier=True)
    chat = prompt(3 * RUN_PAGES * SIZE)
    world.tier.queue, world.tier.is_full = RUN_PAGES, is_full
    world.run(chat, "mine")
    assert world.memory.put_away("mine", 60.0) == 3 * RUN_PAGES
    assert world.memory.lookup([*chat, 0]) == Found(0, 0 if is_full else 3 * RUN_PAGES * SIZE)


def test_for_an_ssd_that_takes_nothing_no_page_is_read() -> None:
    world = world_of(8, has_tier=True)
    world.tier.is_full = True
    world.run(prompt(32))
    assert world.run(prompt(32, 1)) == 0
    assert (world.store.reads, world.tier.puts) == (0, [])
    world.check()


def test_damage_on_ssd_costs_only_what_is_behind_it() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(28))
    world.memory.evict_all()
    keys = list(world.tier.pages)
    world.tier.damaged.add(keys[4])
    assert world.run(prompt(29), restore=True) == 16
    world.check()


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


def test_restoring_stops_where_no_page_is_left() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(28))
    world.memory.evict_all()
    world.compute(world.begin(prompt(20, 1)), 20)
    running = world.begin(prompt(29))
    assert (world.restore(running), world.restore(running)) == (12, 0)
    world.check()


def test_after_a_device_error_nothing_in_memory_is_found() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(8), "a")
    running = world.begin(prompt(12))
    world.compute(running, 12)
    world.drop()
    assert world.memory.lookup(prompt(9)) == Found(0, 0)
    assert (world.pager.free_pages, world.memory.chats()) == (8, {})
    assert world.run(prompt(12)) == 0
    world.check()


def test_memory_that_was_evicted_may_be_given_back() -> None:
    world = world_of(64)
    world.run(prompt(200))
    running = world.begin(prompt(4, 1))
    world.compute(running, 4)
    world.memory.evict_all()
    assert world.pager.high_water == running.table.pages[0] + 1
    world.free(running)
    world.memory.evict_all()
    assert world.pager.high_water == 0


# Sliding windows


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


# Cost


def seconds(work: Callable[[], object]) -> float:
    """Of this thread, the least of several runs."""
    times: list[float] = []
    for _ in range(7):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return min(times)


def long_world(sequences: int, tokens: int) -> World:
    shape = Shape(sequences * tokens // 16 + 8 * sequences, 16, has_tier=False)
    world = World(shape)
    for number in range(sequences):
        running = world.begin([number, *range(tokens - 1)])
        world.memory.grow(running.table, tokens - 24)
        running.table.length = tokens - 24
        world.memory.keep(running.table, running.tokens, "", whole=False)
    return world


def test_a_steady_decode_step_of_32_long_sequences_costs_little() -> None:
    world = long_world(32, 8192)

    def step() -> None:
        for running in world.running:
            world.memory.grow(running.table, running.table.length + 1)

    step()
    assert seconds(step) < 300e-6  # measured: 25 µs


def test_a_path_of_1024_pages_is_found_in_about_a_millisecond() -> None:
    world = long_world(1, 1024 * 16 + 24)
    tokens = world.running[0].tokens
    assert world.memory.lookup(tokens).cached_tokens == 1024 * 16
    assert seconds(lambda: world.memory.tree.match(tokens, len(tokens))) < 5e-3  # measured: 0.7 ms
    assert seconds(lambda: world.memory.free(world.memory.begin(tokens, ""))) < 10e-3


def test_evicting_beside_a_thousand_pages_in_use_looks_at_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = long_world(1, 1024 * 16)
    looked = 0
    node_at = PrefixTree.node_at

    def count(tree: PrefixTree, page: int) -> Node | None:
        nonlocal looked
        looked += 1
        return node_at(tree, page)

    world.run([*range(5000, 5000 + 60)])
    monkeypatch.setattr(PrefixTree, "node_at", count)
    assert world.memory.evict_all() == 4
    assert looked < 20
