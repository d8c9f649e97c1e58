"""KV memory and an SSD tier in a test's memory: what is offered to it and when, and what comes back."""

from __future__ import annotations

import pytest

from engine.kv.restoring import Ahead
from engine.kv.stores import Found, MemoryCounts, Spilled
from tests.engine.kv.memory_world import RUN_PAGES
from tests.engine.kv.small_worlds import SIZE, prompt, world_of


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
    assert world.memory.counts.copied_pages == 0
    world.check()


def test_what_the_ssd_has_not_costs_nothing_that_memory_has() -> None:
    world = world_of(8, has_tier=True)
    world.run([*prompt(6), 5, 5])
    running = world.begin(prompt(17))
    assert (running.table.length, world.restore(running), running.table.length) == (6, 0, 6)


def test_what_could_come_back_is_told_and_comes() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(16))
    world.memory.evict_all()
    world.run(prompt(SIZE))
    running = world.begin(prompt(17))
    assert world.memory.ahead(running.table, running.tokens, is_alone=False) == Ahead(1, 1, 4)
    assert world.memory.restore(running.table, running.tokens, "", is_alone=False) == 12
    assert world.memory.restore(running.table, running.tokens, "", is_alone=False) == 0
    world.look(running)


def test_all_is_on_ssd_when_every_whole_page_is() -> None:
    world, bare = world_of(8, has_tier=True), world_of(8)
    for each in (world, bare):
        assert each.memory.is_on_ssd
        each.run(prompt(10))
        assert not each.memory.is_on_ssd
    world.memory.spill()
    assert world.memory.is_on_ssd  # but for the partly filled page
    world.run(prompt(10, 1))
    assert not world.memory.is_on_ssd


def test_wrong_pages_go_from_memory_and_ssd_with_all_that_is_behind_them() -> None:
    world = world_of(16, has_tier=True)
    world.run(prompt(4 * SIZE), "a")
    world.memory.spill()
    running, other = world.begin(prompt(18), "a"), world.begin(prompt(19), "b")
    world.memory.distrust(running.table, running.tokens, 2 * SIZE)
    assert (len(running.table.pages), running.table.length) == (2, 2 * SIZE)
    assert world.memory.lookup(prompt(18)) == Found(2 * SIZE, 0)
    assert [stored.tokens for stored in world.tier.pages.values()] == [
        tuple(prompt(SIZE)),
        tuple(prompt(2 * SIZE)[SIZE:]),
    ]
    assert other.table.length == 4 * SIZE
    world.check()
    world.free(running)
    world.free(other)
    assert world.pager.free_pages == 16 - 2


def test_wrong_pages_go_where_there_is_no_ssd() -> None:
    world = world_of(16)
    world.run(prompt(4 * SIZE))
    running = world.begin(prompt(18))
    world.memory.distrust(running.table, running.tokens, 0)
    assert (running.table.pages, world.memory.lookup(prompt(18))) == ([], Found(0, 0))
    world.check()


def test_a_run_is_read_once_and_written_once() -> None:
    world = world_of(40, has_tier=True)
    world.run(prompt(36 * SIZE))
    world.run(prompt(40 * SIZE, 1))
    assert sorted(world.tier.puts) == [4, RUN_PAGES, RUN_PAGES]
    assert world.store.reads == 3


def test_what_the_ssd_has_dropped_is_offered_again_only_when_pages_were_used() -> None:
    world = world_of(16, has_tier=True)
    world.run(prompt(16))
    assert world.memory.spill() == Spilled(4, True)
    world.tier.pages.clear()
    assert world.memory.spill() == Spilled(0, True)
    world.run(prompt(4, 1))
    assert world.memory.spill() == Spilled(5, True)


def test_while_the_ssd_cannot_be_written_all_is_offered_again() -> None:
    world = world_of(16, has_tier=True)
    world.tier.is_full, world.tier.reason = True, "the disk is full"
    world.run(prompt(16))
    assert world.memory.spill() == Spilled(0, True)
    world.tier.is_full = False
    assert world.memory.spill() == Spilled(4, True)


def test_without_an_ssd_nothing_is_written_and_what_is_put_away_goes_at_once() -> None:
    world = world_of(16)
    world.run(prompt(16), "mine")
    world.run(prompt(8, 1), "other")
    assert world.memory.spill() == Spilled(0, True)
    assert world.memory.save(0.0)
    assert world.memory.put_away("mine", 0.0) == 4
    assert world.memory.cached_pages == 2
    world.check()


def test_idle_spilling_writes_the_latest_first_and_only_once() -> None:
    world = world_of(16, has_tier=True)
    world.run(prompt(16, 1))
    world.run(prompt(16, 2))
    assert world.memory.spill(1).pages == 4
    assert {stored.tokens[0] // 1000 for stored in world.tier.pages.values()} == {2}
    assert (world.memory.spill(), world.memory.spill()) == (Spilled(4, True), Spilled(0, True))
    world.memory.evict_all()
    assert len(world.tier.puts) == 2


def test_pages_behind_those_that_a_request_holds_are_written_with_them() -> None:
    world = world_of(4 * RUN_PAGES, has_tier=True)
    chat = prompt((2 * RUN_PAGES + 1) * SIZE)
    world.run(chat)
    world.begin(chat[: 2 * RUN_PAGES * SIZE + 1])
    assert world.memory.spill() == Spilled(2 * RUN_PAGES + 1, True)


def test_what_two_branches_stand_on_was_used_with_the_later_one() -> None:
    world = world_of(16, has_tier=True)
    for end in (1, 2):
        world.run([*prompt(8), *[end] * 4])
    world.memory.spill()
    latest = max(node.stamp for node in world.memory.tree.nodes())
    assert sorted(stored.used for stored in world.tier.pages.values())[-2:] == [latest - 1, latest]


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
    assert {stored.tokens[0] // 1000 for stored in world.tier.pages.values()} == {0, 2}
    assert sum(world.tier.puts) == 3 * RUN_PAGES
    world.run(chats[3])  # chat 1 goes, and was used before both that are stored
    assert world.memory.lookup([*chats[1], 0]) == Found(0, 0)
    world.run(prompt(3 * RUN_PAGES * SIZE, 9))
    assert [world.memory.lookup([*chat, 0]).stored_tokens > 0 for chat in chats] == [False, False, True, True]
    world.check()


def test_what_was_just_used_takes_the_room_of_what_was_used_from_memory_before() -> None:
    world = world_of(3 * RUN_PAGES, has_tier=True)
    world.tier.holds = RUN_PAGES
    old, new = prompt(2 * RUN_PAGES * SIZE), prompt(RUN_PAGES * SIZE, 1)
    world.run(old)
    world.memory.spill()
    for _ in range(3):
        world.run(old)
    world.run(new)
    assert world.memory.spill().pages == RUN_PAGES
    world.memory.evict_all()
    assert world.memory.lookup([*new, 0]).stored_tokens == RUN_PAGES * SIZE
    assert world.memory.lookup([*old, 0]) == Found(0, 0)


def test_the_room_of_a_forgotten_chat_is_offered_to_what_had_none() -> None:
    world = world_of(3 * RUN_PAGES, has_tier=True)
    world.tier.holds = RUN_PAGES
    old, new = prompt(2 * RUN_PAGES * SIZE), prompt(RUN_PAGES * SIZE, 1)
    world.run(old, "old")
    world.run(new, "new")
    assert world.memory.spill() == Spilled(RUN_PAGES, True)
    assert world.memory.spill() == Spilled(0, True)
    world.memory.forget("new")
    assert world.memory.spill() == Spilled(RUN_PAGES, True)
    assert {stored.owners for stored in world.tier.pages.values()} == {frozenset({"old"})}


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


def test_a_chat_that_is_pinned_is_not_put_away() -> None:
    world = world_of(16, has_tier=True)
    world.run(prompt(16), "mine")
    world.pin("mine", True)
    assert world.memory.put_away("mine", 1.0) == 0
    assert world.memory.lookup(prompt(17)) == Found(16, 0)


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


@pytest.mark.parametrize("queue", [1, 4 * RUN_PAGES])
def test_what_is_put_away_while_the_chat_is_answered_is_what_no_answer_holds(queue: int) -> None:
    """However slow the disk is: what the answer holds stays when it has ended, with what it wrote."""
    world = world_of(4 * RUN_PAGES, has_tier=True)
    old, new = prompt(2 * RUN_PAGES * SIZE), prompt(RUN_PAGES * SIZE, 1)
    world.tier.queue = queue
    world.run(old, "mine")
    answered = world.begin(new, "mine")
    world.compute(answered, len(new) - SIZE)
    world.memory.put_away("mine", 0.0)
    world.compute(answered, SIZE)
    world.keep(answered)
    world.free(answered)
    while not world.memory.spill().is_all:
        world.tier.flush(1)
    assert world.memory.lookup([*old, 0]) == Found(0, 2 * RUN_PAGES * SIZE)
    assert world.memory.lookup([*new, 0]) == Found(RUN_PAGES * SIZE, 0)
    world.check()


def test_between_two_files_of_what_is_put_away_it_is_looked_at_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To read the pages of one takes 100 ms here: an answer waits for no second."""
    world = world_of(4 * RUN_PAGES, has_tier=True)
    world.run(prompt(3 * RUN_PAGES * SIZE), "mine")
    monkeypatch.setattr("engine.kv.evictor.time.perf_counter", lambda: 0.1 * len(world.tier.puts))
    assert world.memory.put_away("mine", 0.02) == 0
    assert world.tier.puts == [RUN_PAGES]
    assert world.memory.put_away("mine", 0.12) == 3 * RUN_PAGES
    assert world.tier.puts == [RUN_PAGES, RUN_PAGES, RUN_PAGES]


@pytest.mark.parametrize("is_full", [True, False])
def test_what_is_put_away_waits_for_the_ssd_where_it_takes_any(is_full: bool) -> None:
    world = world_of(4 * RUN_PAGES, has_tier=True)
    chat = prompt(3 * RUN_PAGES * SIZE)
    world.tier.queue, world.tier.is_full = RUN_PAGES, is_full
    world.run(chat, "mine")
    assert world.memory.put_away("mine", 60.0) == world.memory.counts.evicted_pages == 3 * RUN_PAGES
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
    running = world.begin(prompt(29))
    assert world.restore(running) == 16
    assert len(running.table.pages) == 4  # what was to be read behind the damage is free again
    world.check()


def test_restoring_stops_where_no_page_is_left() -> None:
    world = world_of(8, has_tier=True)
    world.run(prompt(28))
    world.memory.evict_all()
    world.compute(world.begin(prompt(20, 1)), 20)
    running = world.begin(prompt(29))
    assert (world.restore(running), world.restore(running)) == (12, 0)
    world.check()
