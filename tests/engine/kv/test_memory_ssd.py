"""KV memory on the real SSD tier: real files, and restarts."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.kv import ssd_files
from engine.kv.memory import KVMemory
from engine.kv.page_data import ROOT_KEY, RUN_PAGES, chain_keys
from engine.kv.page_file import StoredRun, read_run
from engine.kv.page_header import CacheIdentity
from engine.kv.restoring import AHEAD_RUNS
from engine.kv.ssd_settings import SsdSettings
from engine.kv.ssd_tier import SsdTier
from engine.kv.stores import Found
from tests.engine.kv.memory_world import Chains, FakeTier, Shape, World

SIZE = 4


@contextmanager
def started(
    folder: Path, chains: Chains, *, cap: int = 1 << 30, pages: int = 64, dtype: str = "uint32"
) -> Iterator[World]:
    """A process's life: a world whose SSD is `folder`, closed at its end. `chains` outlives it."""
    world = World(Shape(pages, SIZE))
    world.chains = chains
    tier = SsdTier(SsdSettings(folder, cap_bytes=cap, floor_bytes=0), CacheIdentity("model", dtype, SIZE))
    world.memory = KVMemory(world.pager, world.store, tier)
    yield world
    world.memory.spill()
    tier.close(timeout=30)
    world.check()


def prompt(length: int, seed: int = 0) -> list[int]:
    return [1000 * seed + 7 + index for index in range(length)]


def test_a_chat_is_there_after_a_restart(tmp_path: Path) -> None:
    chains = Chains()
    with started(tmp_path, chains) as world:
        assert world.run(prompt(101), "chat") == 0
    with started(tmp_path, chains) as world:
        assert world.memory.lookup(prompt(110)) == Found(0, 100)
        assert world.memory.chats()["chat"].memory_bytes == 0
        assert world.run(prompt(110), "chat", restore=True) == 100
        assert world.memory.chats()["chat"].ssd_bytes > 0


def test_a_cache_of_another_dtype_is_not_taken(tmp_path: Path) -> None:
    chains = Chains()
    with started(tmp_path, chains) as world:
        world.run(prompt(40))
    with started(tmp_path, chains, dtype="float16") as world:
        assert world.memory.lookup(prompt(41)) == Found(0, 0)


def test_what_is_forgotten_is_gone_after_a_restart_too(tmp_path: Path) -> None:
    chains = Chains()
    with started(tmp_path, chains) as world:
        world.run(prompt(40, 1), "a")
        world.run(prompt(40, 2), "b")
        world.memory.spill()
        world.memory.forget("a")
    with started(tmp_path, chains) as world:
        assert world.memory.lookup(prompt(41, 1)) == Found(0, 0)
        assert world.memory.lookup(prompt(41, 2)) == Found(0, 40)


def test_a_damaged_file_costs_only_what_is_in_it_and_behind_it(tmp_path: Path) -> None:
    chains = Chains()
    with started(tmp_path, chains) as world:
        world.run(prompt(48 * SIZE))
    with started(tmp_path, chains) as world:
        first = world.begin(prompt(48 * SIZE + 1))
        assert world.restore(first) == RUN_PAGES * SIZE
        world.keep(first)
        world.free(first)  # nothing is read ahead for it any more
        for file in tmp_path.glob("*/*.safetensors"):
            damaged = bytearray(file.read_bytes())
            damaged[-1] ^= 1
            file.write_bytes(damaged)
        again = world.begin(prompt(48 * SIZE + 1))
        assert again.table.length == RUN_PAGES * SIZE
        assert world.restore(again) == 0
        assert world.memory.lookup(again.tokens) == Found(RUN_PAGES * SIZE, 0)


class Reads:
    """Reads files as ever; `done` is set when `count` have been read."""

    def __init__(self, count: int) -> None:
        self.left, self.done = count, threading.Event()

    def __call__(self, path: Path, identity: CacheIdentity) -> StoredRun:
        run = read_run(path, identity)
        self.left -= 1
        if not self.left:
            self.done.set()
        return run


def test_what_was_read_ahead_and_verified_is_used_whatever_becomes_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains, runs = Chains(), AHEAD_RUNS + 3
    tokens, reads = prompt(runs * RUN_PAGES * SIZE + 1), Reads(AHEAD_RUNS)
    with started(tmp_path, chains, pages=runs * RUN_PAGES + 1) as world:
        world.run(tokens[:-1])
    monkeypatch.setattr(ssd_files, "read_run", reads)
    with started(tmp_path, chains, pages=runs * RUN_PAGES + 1) as world:
        running = world.begin(tokens)
        world.memory.expect(running.table, tokens)
        assert reads.done.wait(10)
        assert running.table.length == 0
        assert world.restore(running) == RUN_PAGES * SIZE  # and the next one is being read ahead
        for file in tmp_path.glob("*/*.safetensors"):
            file.unlink()
        for _ in range(AHEAD_RUNS - 1):
            assert world.restore(running) == RUN_PAGES * SIZE
        assert reads.left in (0, -1)
        gained = [world.restore(running) for _ in range(3)]
        assert gained == [RUN_PAGES * SIZE * (reads.left == -1), 0, 0]


def test_no_more_is_expected_than_is_asked_for_next(tmp_path: Path) -> None:
    world, tier = World(Shape(200, SIZE)), FakeTier()
    world.memory = KVMemory(world.pager, world.store, tier)
    tokens = prompt(10 * RUN_PAGES * SIZE + 3)
    world.run(tokens)
    world.memory.evict_all()
    pages = [tokens[at : at + SIZE] for at in range(0, 10 * RUN_PAGES * SIZE, SIZE)]
    keys = chain_keys(ROOT_KEY, pages)[::RUN_PAGES]
    running = world.begin(tokens)
    world.memory.expect(running.table, tokens)
    assert tier.expected == [keys[:AHEAD_RUNS]]
    for run in range(1, 11):
        assert world.restore(running) == RUN_PAGES * SIZE
        assert tier.expected[-1] == keys[run : run + AHEAD_RUNS]
    world.free(running)
    assert tier.expected[-1] == ()


@pytest.mark.parametrize("cap", [3_000, 30_000])
def test_random_requests_through_restarts_with_little_room(tmp_path: Path, cap: int) -> None:
    random_ = random.Random(cap)
    chains, restored, prompts = Chains(), 0, [prompt(60, seed) for seed in range(3)]
    for _ in range(6):
        with started(tmp_path, chains, cap=cap, pages=24) as world:
            for _ in range(25):
                tokens = list(random_.choice(prompts))[: random_.randint(20, 90)]
                if random_.random() < 0.3:
                    tokens[random_.randrange(len(tokens))] = random_.randrange(3)
                tokens += [random_.randrange(3) for _ in range(random_.choice((0, 1, 8)))]
                prompts = [*prompts[-5:], tokens]
                world.run(tokens, random_.choice("abc"), restore=True)
                world.check()
            restored += world.memory.counts.restored_pages
        assert sum(file.stat().st_size for file in tmp_path.glob("*/*")) <= cap
    assert restored > 10
