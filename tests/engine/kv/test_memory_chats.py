"""KV memory and chats: what each owns, its bytes, and what is left when it is forgotten."""

from __future__ import annotations

from engine.events.cache import ChatMemory
from engine.kv.stores import Found
from tests.engine.kv.memory_world import PAGE_BYTES
from tests.engine.kv.small_worlds import prompt, world_of


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
