"""KV memory: what is computed once is found again, in memory or on SSD, and nothing else ever is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.kv import prefix_tree
from engine.kv.page_table import PageTable
from engine.kv.pager import OutOfPages
from engine.kv.restoring import Ahead
from engine.kv.stores import Found, MemoryCounts
from tests.engine.kv.small_worlds import SIZE, prompt, world_of


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


def test_sequences_with_the_same_hash_are_told_apart_by_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(parent: bytes, ids: bytes, page_bytes: int) -> tuple[bytes, ...]:
        return (b"0123456789abcdef",) * (len(ids) // page_bytes)

    monkeypatch.setattr(prefix_tree, "keys_of_ids", same)
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


def test_a_lone_chat_goes_on_in_its_last_page_up_to_the_last_slot_and_no_further() -> None:
    world = world_of(4)
    world.run(prompt(6), "a")
    world.run(prompt(SIZE, 1), "b")
    running = world.begin(prompt(17), "a")
    assert not world.compute(running, 17)
    assert world.compute(running, 3 * SIZE - 6)
    assert world.memory.counts == MemoryCounts()  # nothing had to go for it, nor be copied
    assert world.compute(running, SIZE)
    assert (world.memory.counts.evicted_pages, running.table.length) == (1, 4 * SIZE)
    world.check()


def test_of_two_that_go_on_in_a_chat_s_last_page_the_first_gets_a_copy_and_the_chat_stays() -> None:
    world = world_of(8)
    world.run(prompt(6), "a")
    one, _two = world.begin([*prompt(6), 1, 1, 1], "a"), world.begin([*prompt(6), 2, 2, 2], "a")
    assert world.compute(one, 3)
    assert world.memory.counts.copied_pages == 1
    assert world.memory.lookup([*prompt(6), 3]) == Found(6, 0)
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


def test_a_request_that_was_cancelled_has_used_what_it_shared() -> None:
    world = world_of(4)
    world.run(prompt(2 * SIZE), "a")
    world.run(prompt(2 * SIZE, 1), "b")
    world.free(world.begin(prompt(2 * SIZE + 1), "a"))
    assert world.compute(world.begin(prompt(2 * SIZE, 2)), 2 * SIZE)
    assert world.memory.lookup(prompt(2 * SIZE + 1)) == Found(2 * SIZE, 0)
    assert world.memory.lookup(prompt(2 * SIZE + 1, 1)) == Found(0, 0)


def test_nobody_more_owns_what_is_begun_for_nobody() -> None:
    world = world_of(4)
    world.run(prompt(8), "a")
    before = world.owners()
    table = world.memory.begin(prompt(9), None)
    assert (table.length, table.chat) == (8, "")
    assert world.owners() == before
    world.memory.free(table)
    world.check()


def test_the_arena_is_built_for_what_will_be_used_and_no_more() -> None:
    world = world_of(8)
    short, long = world.begin(prompt(SIZE)), world.begin(prompt(3 * SIZE, 1))
    for running in (long, short):
        assert world.compute(running, len(running.tokens))
    world.free(long)  # of four pages that are built three are free
    for missing, pages in ((0, 4), (3, 4), (4, 5), (6, 7), (7, 8), (100, 8)):
        assert world.memory.built_for(missing) == pages
    assert world.memory.pages_built_for(prompt(9, 2), 4) == 5  # four pages
    assert world.memory.pages_built_for(prompt(8, 2), 4) == 4
    assert world.memory.pages_built_for(prompt(8, 2), 4, 2) == 6
    world.keep(short)
    assert world.memory.pages_built_for(prompt(SIZE + 1), 3 * SIZE - 1, 1) == 5  # one of them is there
    assert world.memory.pages_built_for(prompt(SIZE), 4 * SIZE, 1) == 7  # whose last token is computed
    world.memory.prepare(5)
    assert len(world.store.slots) == 6
    assert world.pager.free_pages == 7
    assert world.compute(world.begin(prompt(5 * SIZE, 3)), 5 * SIZE)
    assert len(world.store.slots) == 6


def test_without_a_window_nothing_is_trimmed_and_without_an_ssd_nothing_comes_back() -> None:
    world = world_of(8)
    running = world.begin(prompt(12))
    world.compute(running, 8)
    world.trim(running)
    assert len(running.table.pages) == 2
    world.memory.fetch(running.tokens)
    assert world.memory.ahead(running.table, running.tokens, is_alone=True) == Ahead(0, 0, 0)
    assert world.restore(running) == 0
    assert running.table.length == 8


def test_the_books_of_the_pager_and_of_the_tree_are_checked() -> None:
    world = world_of(8)
    world.run(prompt(8))
    running = world.begin(prompt(4, 1))
    world.compute(running, 4)
    world.check()
    with pytest.raises(AssertionError, match="holders"):
        world.memory.check([])
    next(world.memory.tree.nodes()).resident_children = 2
    with pytest.raises(AssertionError, match="counts its children wrongly"):
        world.check()


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


def test_who_goes_on_in_a_last_page_that_another_has_pinned_gets_a_copy() -> None:
    world = world_of(8)
    world.run(prompt(6), "a")
    world.pin("a", True)
    with world.keeps_pins():
        assert world.compute(world.begin(prompt(9), "b"), 3)
    assert world.memory.counts.copied_pages == 1
    assert world.memory.lookup([*prompt(6), 0]) == Found(6, 0)


def test_a_pinned_chat_s_own_pages_are_the_last_resort_of_its_own_requests_alone() -> None:
    world = world_of(6)
    world.pin("a", True)
    world.run(prompt(4 * SIZE), "a")
    world.run(prompt(SIZE, 1), "b")
    assert not world.compute(world.begin(prompt(3 * SIZE, 2), "b"), 3 * SIZE)
    assert world.compute(world.begin(prompt(3 * SIZE, 3), "a"), 3 * SIZE)
    assert world.memory.lookup([*prompt(4 * SIZE), 0]) == Found(3 * SIZE, 0)
    assert world.memory.lookup([*prompt(SIZE, 1), 0]) == Found(0, 0)
    world.check()


def test_what_a_pinned_chat_has_on_ssd_comes_back_in_place_of_its_own_pages() -> None:
    world = world_of(6, has_tier=True)
    world.run(prompt(4 * SIZE), "a")
    world.memory.evict_all()
    world.pin("a", True)
    world.run(prompt(5 * SIZE, 1), "a")
    found = world.memory.lookup(prompt(4 * SIZE + 1))
    assert found == Found(0, 4 * SIZE)
    assert world.run(prompt(4 * SIZE + 1), "a", restore=True) == found.stored_tokens
    world.check()


@pytest.mark.parametrize("is_put_away", [True, False])
def test_what_pages_that_went_in_another_way_stood_on_goes_in_its_turn(is_put_away: bool) -> None:
    world = world_of(8)
    world.run(prompt(2 * SIZE, 1), "c")
    world.run(prompt(3 * SIZE, 2), "a")
    world.share(prompt(2 * SIZE, 2), "b")
    world.run(prompt(3 * SIZE, 3), "d")
    assert world.compute(world.begin(prompt(SIZE, 8)), SIZE)  # of c
    if is_put_away:
        assert world.memory.put_away("a", 0.0) == 1
    else:
        assert world.let_go("a", [prompt(3 * SIZE, 2)], prompt(2 * SIZE, 2)) == 1
    assert world.compute(world.begin(prompt(3 * SIZE, 9)), 3 * SIZE)  # the rest of c, and of what b has left
    found = [world.memory.lookup([*prompt(3 * SIZE, seed), 0]).cached_tokens for seed in (1, 2, 3)]
    assert found == [0, SIZE, 3 * SIZE]
    world.check()


def test_a_chat_that_is_pinned_no_longer_goes_in_its_turn() -> None:
    world = world_of(8)
    for seed, chat in enumerate("abcd"):
        world.run(prompt(2 * SIZE, seed), chat)
    world.pin("a", True)
    assert world.compute(world.begin(prompt(SIZE, 8)), SIZE)  # of b, the next to go
    world.pin("a", False)
    assert world.compute(world.begin(prompt(2 * SIZE, 9)), 2 * SIZE)
    found = [world.memory.lookup([*prompt(2 * SIZE, seed), 0]).cached_tokens for seed in range(4)]
    assert found == [0, SIZE, 2 * SIZE, 2 * SIZE]
    world.check()


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
