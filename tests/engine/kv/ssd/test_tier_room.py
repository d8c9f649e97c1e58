"""Who makes room for whom in the SSD tier: the cap and the floor of free space hold at all times."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from engine.kv.stores import Room
from tests.engine.kv.spilled import IDENTITY, OTHER, assert_holds, pages, read, spilled
from tests.engine.kv.ssd.tiers import (
    DAY,
    PLENTY,
    Clock,
    Usage,
    chain,
    file_size,
    found,
    opened,
    page_files,
    stored,
)


def test_the_oldest_make_room_and_a_page_outlives_those_behind_it(tmp_path: Path) -> None:
    trunk = chain(2)
    left, right, third = (
        spilled(trunk[-1].keys[-1], pages(first, 4), (name,))
        for first, name in ((1000, "left"), (2000, "right"), (3000, "third"))
    )
    cap = 2 * file_size(trunk[0]) + 2 * file_size(left) + 300
    tier = opened(tmp_path, cap=cap)
    stored(tier, left, trunk[1], right, trunk[0])
    assert_holds(read(tier, left.keys, left.tokens), left.keys)
    tier.close(1)
    again = opened(
        tmp_path, cap=cap
    )  # the order is still known: right is the oldest, not left, not the trunk
    stored(again, third)
    assert found(again, [*trunk, left, right, third]) == [True, True, True, False, True]
    stored(again, *chain(1, first=9000))  # of a chain, the end goes first
    assert found(again, [*trunk, left, third]) == [True, True, False, True]


def test_a_run_is_refused_before_the_pages_before_it_go(tmp_path: Path) -> None:
    runs = chain(3)
    tier = opened(tmp_path, cap=2 * file_size(runs[0]) + 40)
    stored(tier, *runs)
    assert found(tier, runs) == [True, True, False]


def test_what_was_used_before_all_that_is_stored_gets_no_room(tmp_path: Path) -> None:
    one, two, three = (chain(1, 1000 * number)[0] for number in range(3))
    cap = 2 * file_size(one) + 100
    tier = opened(tmp_path, cap=cap)
    long_ago, before = tier.tick(), tier.tick()
    stored(tier, replace(one, used=tier.tick()), replace(two, used=before))
    assert tier.room(three.data.nbytes, long_ago) is Room.NEVER
    assert not tier.put(replace(three, used=long_ago))
    tier.use(two.keys)
    stored(tier, replace(three, used=tier.tick()))  # two was read in memory meanwhile, one was not
    assert found(tier, [one, two, three]) == [False, True, True]
    tier.close(1)
    again = opened(tmp_path, cap=cap)
    assert again.room(one.data.nbytes, before) is Room.NEVER
    stored(again, one)
    assert found(again, [one, two, three]) == [True, False, True]


def test_what_is_used_is_later_than_all_that_is_stored_whatever_the_clock_does(tmp_path: Path) -> None:
    one, two = (chain(1, 1000 * number)[0] for number in range(2))
    clock = Clock()
    tier = opened(tmp_path, clock=clock)
    stored(tier, one)
    tier.close(1)
    clock.now -= DAY
    again = opened(tmp_path, cap=file_size(one) + 100, clock=clock)
    stored(again, replace(two, used=again.tick()))
    assert found(again, [one, two]) == [False, True]


def test_what_waits_counts_as_stored_and_room_for_more_comes_when_it_is(tmp_path: Path) -> None:
    one, two, three = (chain(1, 1000 * number)[0] for number in range(3))
    size = one.data.nbytes
    cap = 2 * file_size(one) + 100
    tier = opened(tmp_path, cap=cap, queue_bytes=size)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():  # the writer must wait
        times = [tier.tick() for _ in range(3)]
        assert tier.put(replace(three, used=times[2]))
        assert tier.room(cap - size, times[1]) is Room.LATER
        assert tier.room(cap - size + 1, times[1]) is Room.NEVER
    assert tier.flush(60)
    stored(tier, replace(two, used=times[1]))
    assert tier.room(size, times[0]) is Room.NEVER
    tier.close(1)
    assert tier.room(size, tier.tick()) is Room.NEVER


def test_a_smaller_cap_is_kept_from_the_start(tmp_path: Path) -> None:
    runs = chain(4)
    stored(opened(tmp_path), *runs)
    tier = opened(tmp_path, OTHER, cap=2 * file_size(runs[0]) + 40)
    assert tier.usage.total_bytes <= 2 * file_size(runs[0]) + 40
    assert found(opened(tmp_path), runs) == [True, True, False, False]


def test_what_is_used_while_it_makes_room_stays_and_the_cap_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = chain(1)[0], chain(1, 100)[0]
    tier = opened(tmp_path)
    stored(tier, one, two)
    cap, unlink = tier.usage.total_bytes, Path.unlink
    tier = opened(tmp_path, cap=cap)

    def used_meanwhile(path: Path, missing_ok: bool = False) -> None:
        tier.use(two.keys)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", used_meanwhile)
    assert tier.put(spilled(ROOT_KEY, pages(1000, 2 * len(one.keys))))
    assert tier.flush(60)
    assert tier.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path)) <= cap
    assert found(tier, [one, two]) == [False, True]


@pytest.mark.parametrize("lacks", [0, 1])
def test_the_cap_is_used_to_its_last_byte(tmp_path: Path, lacks: int) -> None:
    one, two = (chain(1, 1000 * number)[0] for number in range(2))
    stored(opened(tmp_path / "elsewhere"), one)
    (file,) = page_files(tmp_path / "elsewhere")
    tier = opened(tmp_path / "cache", cap=2 * file.stat().st_size - lacks)
    stored(tier, one, two)
    assert found(tier, [one, two]) == [not lacks, True]


def test_models_share_one_cap(tmp_path: Path) -> None:
    old, new = chain(2), chain(3, first=5000)
    cap = 3 * file_size(old[0]) + 40
    clock = Clock()
    stored(opened(tmp_path, cap=cap, clock=clock), *old)
    clock.now += 60
    stored(opened(tmp_path, OTHER, cap=cap, clock=clock), *new)
    assert found(opened(tmp_path, cap=cap), old) == [False, False]
    assert found(opened(tmp_path, OTHER, cap=cap), new) == [True, True, True]


def test_a_run_larger_than_the_cap_is_not_taken(tmp_path: Path) -> None:
    run, other = chain(2)
    tier = opened(tmp_path, cap=file_size(run) - 1)
    tier.put(run)
    tier.flush(60)
    assert page_files(tmp_path) == []
    assert not opened(tmp_path, cap=0).put(other)


def test_space_is_left_on_the_disk(tmp_path: Path) -> None:
    runs = chain(1) + chain(1, 1000) + chain(1, 2000)
    size = file_size(runs[0])
    others = 0

    def usage(folder: Path) -> Usage:
        used = others + sum(file.stat().st_size for file in page_files(folder))
        return Usage(10 * size, used, 10 * size - used)

    tier = SsdTier(SsdSettings(tmp_path, PLENTY, 7 * size), IDENTITY, disk_usage=usage)
    stored(tier, *runs)
    assert found(tier, runs) == [True, True, True]
    others = size
    fourth = spilled(ROOT_KEY, pages(4000, 4))
    stored(tier, fourth)  # only in place of two older ones
    assert found(tier, [*runs, fourth]) == [False, False, True, True]
    others = 8 * size
    assert not tier.put(runs[0])  # not even in place of all
    assert tier.flush(60)
    assert found(tier, [*runs, fourth]) == [False, False, True, True]


def test_the_floor_is_kept_from_the_start(tmp_path: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(4)]
    size = file_size(runs[0])
    others = 0

    def usage(folder: Path) -> Usage:
        used = others + sum(file.stat().st_size for file in page_files(folder))
        return Usage(10 * size, used, max(0, 10 * size - used))

    def begun() -> SsdTier:
        return SsdTier(SsdSettings(tmp_path, PLENTY, 4 * size), IDENTITY, disk_usage=usage)

    stored(begun(), *runs)
    assert found(begun(), runs) == [True] * 4
    others = 4 * size + 1  # a byte more than leaves room for two files
    for left in (1, 0):
        tier = begun()
        assert found(tier, runs) == [False] * (4 - left) + [True] * left
        others += size
    assert (tier.usage.total_bytes, page_files(tmp_path)) == (0, [])
    assert tier.reason == ""


def test_nothing_goes_for_a_run_when_the_disk_has_filled_while_it_waited(tmp_path: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(3)]
    size, free = file_size(runs[0]), PLENTY
    floor = 10 * size
    tier = SsdTier(
        SsdSettings(tmp_path, PLENTY, floor), IDENTITY, disk_usage=lambda folder: Usage(PLENTY, 0, free)
    )
    stored(tier, *runs[:2])
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():  # the writer must wait
        assert tier.put(runs[2])
        free = floor - size - 1  # the two files would not be enough
    assert tier.flush(60)
    assert (found(tier, runs), tier.written_pages) == ([True, True, False], 8)
    assert "must stay free" in tier.reason
    free += 1  # they would
    assert tier.reason == ""
    free -= 1
    assert tier.reason == ""  # nothing was refused since


def test_a_disk_that_gives_nothing_back_costs_no_more_at_the_start_than_it_lacks(tmp_path: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(3)]
    stored(opened(tmp_path), *runs)
    settings = SsdSettings(tmp_path, PLENTY, 1000)
    tier = SsdTier(settings, IDENTITY, disk_usage=lambda folder: Usage(PLENTY, 0, 999))
    assert found(tier, runs) == [False, True, True]


def test_a_disk_that_gives_nothing_back_does_not_cost_the_whole_cache(tmp_path: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(5)]
    free = PLENTY
    tier = SsdTier(
        SsdSettings(tmp_path, PLENTY, 1000), IDENTITY, disk_usage=lambda folder: Usage(PLENTY, 0, free)
    )
    stored(tier, *runs[:4])
    free = 1000 + file_size(runs[4]) - 1  # whatever is removed: snapshots keep it
    stored(tier, runs[4])
    assert found(tier, runs) == [False, True, True, True, False]
