"""What KV memory itself costs: a step, a lookup and an eviction beside thousands of pages."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from engine.kv.node import Node
from engine.kv.prefix_tree import PrefixTree
from tests.engine.kv.memory_world import Shape, World


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


def world_of_chats(chats: int, pages: int) -> World:
    """Chats "chat 0" …, of so many pages each, that nobody continues now."""
    world, each = World(Shape(chats * (pages + 2), 16, has_tier=False)), 16 * pages
    for number in range(chats):
        running = world.begin([number, *range(each)])
        world.memory.grow(running.table, each)
        running.table.length = each
        world.memory.keep(running.table, running.tokens, f"chat {number}", whole=False)
        world.memory.free(running.table)
    return world


def test_a_pinned_chat_makes_room_no_slower_to_count() -> None:
    world = world_of_chats(64, 128)
    world.memory.pin("chat 3", True)
    assert world.memory.available_pages == 64 * 130 - 128
    assert seconds(lambda: world.memory.available_pages) < 1e-3  # measured: 0.03 ms


def test_forgetting_a_chat_looks_at_no_other() -> None:
    chats = 64
    world = world_of_chats(chats, 128)
    tree, numbers = world.memory.tree, iter(range(chats))
    assert {*tree.nodes({"chat 3"})} == {node for node in tree.nodes() if "chat 3" in node.owners}
    least = seconds(lambda: world.memory.forget(f"chat {next(numbers)}"))
    assert least < 2e-3  # measured: 0.2 ms
    assert len(tree.chats) == chats - 7


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
