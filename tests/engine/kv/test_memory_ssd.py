"""KV memory on the real SSD tier: real files, and restarts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.kv import restoring
from engine.kv.memory import KVMemory
from engine.kv.page_data import LONGEST_RUN, ROOT_KEY, chain_keys
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd import tier as ssd_tier
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from engine.kv.stores import Found
from tests.engine.kv.memory_world import PAGE_BYTES, RUN_PAGES, Chains, Shape, World

SIZE = 4


@contextmanager
def started(
    folder: Path,
    chains: Chains,
    *,
    cap: int = 1 << 30,
    pages: int = 64,
    dtype: str = "uint32",
    page_bytes: int = PAGE_BYTES,
) -> Iterator[World]:
    """A process's life: a world whose SSD is `folder`, closed at its end. `chains` outlives it."""
    world = World(Shape(pages, SIZE))
    world.chains, world.store.page_bytes = chains, page_bytes
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


@pytest.mark.parametrize(("before", "after"), [(PAGE_BYTES, 100), (100, PAGE_BYTES)])
@pytest.mark.parametrize("begun", [1, 5])
def test_files_of_other_lengths_come_back(tmp_path: Path, before: int, after: int, begun: int) -> None:
    chains, pages = Chains(), 2 * LONGEST_RUN + 6
    with started(tmp_path, chains, pages=200, page_bytes=before) as world:
        world.run(prompt(pages * SIZE))
    files = len(list(tmp_path.glob("*/*.safetensors")))
    assert files == (3 if before == 100 else 9)
    with started(tmp_path, chains, pages=200, page_bytes=after) as world:
        world.run(prompt(begun * SIZE))
        assert world.run(prompt(pages * SIZE + 1), restore=True) == pages * SIZE
        assert world.memory.counts.restored_pages == pages - begun
    assert len(list(tmp_path.glob("*/*.safetensors"))) == files


@pytest.fixture
def one_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "BYTES_AT_ONCE", 0)
    monkeypatch.setattr(restoring, "RUNS_AT_ONCE", 1)


@pytest.mark.usefixtures("one_run_at_once")
def test_a_damaged_file_costs_only_what_is_in_it_and_behind_it(tmp_path: Path) -> None:
    chains = Chains()
    with started(tmp_path, chains) as world:
        world.run(prompt(48 * SIZE))
    with started(tmp_path, chains) as world:
        first = world.begin(prompt(48 * SIZE + 1))
        assert world.restore(first) == RUN_PAGES * SIZE
        for file in tmp_path.glob("*/*.safetensors"):
            damaged = bytearray(file.read_bytes())
            damaged[-1] ^= 1
            file.write_bytes(damaged)
        assert world.restore(first) == 0
        assert world.memory.lookup(first.tokens) == Found(RUN_PAGES * SIZE, 0)
        assert world.compute(first, 48 * SIZE)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_where_nothing_comes_back_what_memory_has_of_a_page_is_not_computed_again(
    tmp_path: Path, is_damaged: bool
) -> None:
    chains, tokens = Chains(), prompt(3 * RUN_PAGES * SIZE + 1)
    with started(tmp_path, chains) as world:
        world.run(tokens[:-1])
    with started(tmp_path, chains) as world:
        world.run([*tokens[: SIZE + 3], 1, 2], "other")
        running = world.begin(tokens)
        held = list(running.table.pages)
        for file in tmp_path.glob("*/*.safetensors"):
            if is_damaged:
                file.write_bytes(file.read_bytes()[:-1] + b"?")
            else:
                file.unlink()
        assert world.restore(running) == 0
        assert (running.table.length, running.table.pages) == (SIZE + 3, held)
        assert world.memory.counts.restored_pages == 0
        world.check()
        assert world.compute(running, len(tokens))


def test_a_device_that_breaks_while_pages_come_back_leaves_none_of_them_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("no device")

    chains = Chains()
    with started(tmp_path, chains) as world:
        world.run(prompt(9 * SIZE))
    with started(tmp_path, chains) as world:
        world.run([*prompt(SIZE + 3), 1, 2], "other")
        running = world.begin(prompt(9 * SIZE))
        with monkeypatch.context() as patch:
            patch.setattr(world.store, "memory", broken)
            with pytest.raises(RuntimeError, match="no device"):
                world.restore(running)
        world.check()
        world.drop()
        assert world.pager.free_pages == world.shape.pages


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_of_what_is_read_at_once_that_before_the_damage_is_used(tmp_path: Path, damaged: int) -> None:
    chains, tokens = Chains(), prompt(3 * RUN_PAGES * SIZE + 1)
    with started(tmp_path, chains) as world:
        world.run(tokens[:-1])
    keys = chain_keys(ROOT_KEY, [tokens[at : at + SIZE] for at in range(0, len(tokens) - 1, SIZE)])
    (path,) = tmp_path.glob(f"*/{keys[(damaged + 1) * RUN_PAGES - 1].hex()}.safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with started(tmp_path, chains) as world:
        running = world.begin(tokens)
        assert world.restore(running) == damaged * RUN_PAGES * SIZE
        assert world.memory.counts.restored_pages == damaged * RUN_PAGES
        assert len(running.table.pages) == damaged * RUN_PAGES  # what was taken for the rest is free again
        world.check()
        assert world.compute(running, len(tokens))


def test_a_read_that_takes_too_long_ends_with_a_file_and_the_next_goes_on_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains, tokens = Chains(), prompt(3 * RUN_PAGES * SIZE + 1)
    with started(tmp_path, chains) as world:
        world.run(tokens[:-1])
    monkeypatch.setattr(ssd_tier, "READ_SECONDS", 0.0)
    with started(tmp_path, chains) as world:
        running = world.begin(tokens)
        for run in range(1, 4):
            assert world.restore(running, is_alone=True) == RUN_PAGES * SIZE
            assert len(running.table.pages) == run * RUN_PAGES  # what was taken for the rest is free again
            world.check()
        assert world.restore(running, is_alone=True) == 0
        assert world.compute(running, len(tokens))


def test_each_read_ends_with_a_run_and_is_longer_where_nobody_has_a_turn_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restoring, "BYTES_AT_ONCE", 0)
    monkeypatch.setattr(restoring, "RUNS_AT_ONCE", 2)
    monkeypatch.setattr(restoring, "ALONE", 2)
    for is_alone, reads in (
        (False, (2 * RUN_PAGES - 3, 2 * RUN_PAGES, RUN_PAGES)),
        (True, (4 * RUN_PAGES - 3, RUN_PAGES)),
    ):
        world = World(Shape(200, SIZE))
        tokens = prompt(5 * RUN_PAGES * SIZE + 3)
        world.run(tokens)
        world.memory.evict_all()
        world.run(tokens[: 3 * SIZE])
        running = world.begin(tokens)
        assert running.table.length == 3 * SIZE
        assert [world.restore(running, is_alone=is_alone) for _ in reads] == [pages * SIZE for pages in reads]
        assert world.restore(running, is_alone=is_alone) == 0


def test_what_a_prompt_would_read_first_is_fetched_before_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "BYTES_AT_ONCE", 0)
    monkeypatch.setattr(restoring, "RUNS_AT_ONCE", 1)
    monkeypatch.setattr(restoring, "ALONE", 2)
    world = World(Shape(200, SIZE))
    tokens = prompt(5 * RUN_PAGES * SIZE + 3)
    world.run(tokens)
    world.memory.evict_all()
    keys = chain_keys(ROOT_KEY, [tokens[at : at + SIZE] for at in range(0, 5 * RUN_PAGES * SIZE, SIZE)])
    for cached in (0, 3, 17):
        world.run(tokens[: cached * SIZE + 2])
        world.memory.fetch(tokens)
        assert world.tier.expected[-1] == keys[cached : cached // RUN_PAGES * RUN_PAGES + 2 * RUN_PAGES]
    world.memory.fetch(prompt(20, 1))
    assert world.tier.expected[-1] == ()
    world.check()


@pytest.mark.parametrize("cap", [3_000, 30_000])
def test_random_requests_through_restarts_with_little_room(tmp_path: Path, cap: int) -> None:
    random_ = random.Random(cap)
    chains, restored, prompts = Chains(), 0, [prompt(60, seed) for seed in range(3)]
    for _ in range(6):
        with started(tmp_path, chains, cap=cap, pages=24, page_bytes=16) as world:
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


def test_what_leaves_memory_for_pages_that_come_back_does_not_take_their_place_on_ssd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were used last, and what is read next longest ago; the disk is quick."""
    chains, old = Chains(), prompt(40 * SIZE, 1)
    with started(tmp_path, chains, page_bytes=100) as world:
        world.run(old)
    cap = sum(file.stat().st_size for file in tmp_path.glob("**/*.safetensors"))
    read = SsdTier.read
    monkeypatch.setattr(SsdTier, "read", lambda tier, *of: read(tier, *of) if tier.flush(60) else 0)
    with started(tmp_path, chains, cap=cap, pages=48, page_bytes=100) as world:
        world.run(prompt(40 * SIZE, 2))
        assert world.memory.lookup([*old, 0]) == Found(0, 40 * SIZE)
        assert world.run([*old, 0], restore=True) == 40 * SIZE
