"""A branch owns what it shares; of several answers one is kept, and what only others hold is free at once."""

from __future__ import annotations

import pytest

from tests.engine.kv.memory_world import Shape, World

SIZE = 4
PROMPT = tuple(range(100, 110))
ANSWERS = tuple(PROMPT + tuple(range(first, first + 9)) for first in (200, 300, 400))
"""Two full pages and a half in common, then nine tokens each: five pages in all, three of them their own."""


def world_of(*, window: int | None = None, has_tier: bool = False) -> World:
    return World(Shape(32, SIZE, window, has_tier))


def answered(world: World, chat: str = "chat") -> World:
    """The answers' tokens are computed but for the last, as an engine does."""
    for answer in ANSWERS:
        world.run(answer[:-1], chat)
    return world


def test_what_only_the_others_hold_is_free() -> None:
    world = answered(world_of())
    assert world.memory.cached_pages == 2 + 3 * 3
    assert world.let_go("chat", ANSWERS[1:], ANSWERS[0]) == 2 * 3
    assert world.memory.lookup((*ANSWERS[0], 1)).cached_tokens == len(ANSWERS[0]) - 1
    assert world.memory.lookup((*ANSWERS[1], 1)).cached_tokens == len(PROMPT)
    assert world.let_go("chat", ANSWERS[1:], ANSWERS[0]) == 0
    world.check()


def test_pages_of_other_chats_and_pinned_ones_stay() -> None:
    world = answered(world_of())
    world.run(ANSWERS[1], "other")
    world.run(ANSWERS[2], "pinned")
    world.pin("pinned", True)
    assert world.let_go("chat", ANSWERS[1:], ANSWERS[0]) == 0
    assert world.memory.lookup((*ANSWERS[1], 1)).cached_tokens == len(ANSWERS[1])
    assert world.memory.chats()["chat"].memory_bytes < world.memory.chats()["other"].memory_bytes * 2
    world.memory.forget("other")
    assert world.memory.lookup((*ANSWERS[1], 1)).cached_tokens == len(PROMPT)
    world.check()


def test_an_equal_answer_and_one_that_the_kept_one_begins_with_cost_it_nothing() -> None:
    world = answered(world_of())
    kept = ANSWERS[0]
    assert world.let_go("chat", (kept, kept[:-3], kept[:12], kept[:-1]), kept) == 0
    assert world.memory.lookup((*kept, 1)).cached_tokens == len(kept) - 1


def test_a_branch_that_goes_on_elsewhere_keeps_what_it_stands_on() -> None:
    world = answered(world_of())
    world.run((*ANSWERS[1], 5, 6, 7, 8, 9), "chat")
    assert world.let_go("chat", ANSWERS[1:], ANSWERS[0]) == 3
    assert world.memory.lookup((*ANSWERS[1], 5, 6, 7, 8, 9, 1)).cached_tokens == len(ANSWERS[1]) + 5
    world.check()


@pytest.mark.parametrize("length", range(len(PROMPT) + 1, len(PROMPT) + 9))
def test_a_branch_of_any_length_goes_with_the_page_that_its_last_token_is_not_in(length: int) -> None:
    world = world_of()
    kept, branch = ANSWERS[0], ANSWERS[1][:length]
    for tokens in (kept, branch):
        world.run(tokens[:-1], "chat")
    own = -(-(length - 1) // SIZE) - len(PROMPT) // SIZE
    pages = world.memory.cached_pages
    assert world.let_go("chat", [branch], kept) == (own if length > len(PROMPT) + 1 else 0)
    assert world.memory.lookup((*kept, 1)).cached_tokens == len(kept) - 1
    assert world.memory.cached_pages == pages - (own if length > len(PROMPT) + 1 else 0)
    world.check()


@pytest.mark.parametrize("length", range(len(PROMPT) + 1, len(ANSWERS[1]) - 1))
def test_a_branch_goes_as_far_as_it_was_computed(length: int) -> None:
    """As by a draft model, which reads behind the answer."""
    world = world_of()
    for tokens in (ANSWERS[0][:-1], ANSWERS[1][:length]):
        world.run(tokens, "chat")
    own = -(-length // SIZE) - len(PROMPT) // SIZE
    assert world.let_go("chat", [ANSWERS[1]], ANSWERS[0]) == own
    assert world.memory.lookup((*ANSWERS[0], 1)).cached_tokens == len(ANSWERS[0]) - 1
    assert world.memory.lookup((*ANSWERS[1], 1)).cached_tokens == len(PROMPT)
    world.check()


def test_pages_that_run_are_free_when_they_end() -> None:
    world = answered(world_of())
    running = world.begin((*ANSWERS[1], 7), "chat")
    freed = world.let_go("chat", ANSWERS[1:], ANSWERS[0])
    assert 3 <= freed < 6
    world.look(running)
    world.check()
    before = world.pager.free_pages
    world.free(running)
    assert freed + world.pager.free_pages - before == 6


def test_nothing_of_them_is_written_to_ssd() -> None:
    world = answered(world_of(has_tier=True))
    world.let_go("chat", ANSWERS[1:], ANSWERS[0])
    assert not world.tier.puts
    assert world.memory.spill().pages == len(ANSWERS[0]) // SIZE


def test_a_pinned_chat_that_ends_a_token_earlier_keeps_no_page_of_the_branch() -> None:
    world = answered(world_of())
    world.run(ANSWERS[1][:-1], "pinned")
    world.pin("pinned", True)
    world.run(ANSWERS[1], "chat")
    assert world.let_go("chat", ANSWERS[1:2], ANSWERS[0]) == 1
    assert world.memory.lookup((*ANSWERS[1], 1)).cached_tokens == len(ANSWERS[1]) - 1
    world.check()


def test_what_a_branch_shares_stays_when_the_chat_it_came_from_is_forgotten() -> None:
    world = answered(world_of())
    assert world.share(ANSWERS[0], "branch") == 16
    world.memory.forget("chat")
    assert world.memory.lookup((*ANSWERS[0], 1)).cached_tokens == 16
    assert world.memory.cached_pages == 4
    assert world.memory.chats().keys() == {"branch"}
    world.check()


def test_what_it_shares_on_ssd_is_its_own_there() -> None:
    world = answered(world_of(has_tier=True))
    world.memory.evict_all()
    assert world.share(ANSWERS[0], "branch") == 16
    world.memory.forget("chat")
    assert world.run((*ANSWERS[0], 1), "branch", restore=True) == 16
    world.check()


def test_it_shares_what_is_on_ssd_behind_what_is_in_memory() -> None:
    world = answered(world_of(has_tier=True))
    world.memory.evict_all()
    world.run(ANSWERS[0][:10], "chat", restore=True)
    assert world.memory.lookup((*ANSWERS[0], 1)).cached_tokens < 16
    assert world.share(ANSWERS[0], "branch") == 16
    world.memory.forget("chat")
    assert world.run((*ANSWERS[0], 1), "branch", restore=True) == 16
    world.check()


@pytest.mark.parametrize("has_tier", [False, True])
@pytest.mark.parametrize(("tokens", "shared"), [(15, 12), (16, 16), (17, 16), (18, 16), (19, 16)])
def test_it_shares_whole_pages_alone(tokens: int, shared: int, has_tier: bool) -> None:
    """What was computed ends with two tokens of a page, at the 18th."""
    world = answered(world_of(has_tier=has_tier))
    assert world.share(ANSWERS[0][:tokens], "branch") == shared
    world.memory.forget("chat")
    assert world.memory.lookup((*ANSWERS[0], 1)).cached_tokens == shared
    world.check()


def test_a_branch_of_what_was_never_computed_owns_nothing() -> None:
    world = answered(world_of(has_tier=True))
    assert world.share((1, 2, 3, 4, 5), "branch") == 0
    assert world.share((), "branch") == 0
    assert "branch" not in world.memory.chats()
