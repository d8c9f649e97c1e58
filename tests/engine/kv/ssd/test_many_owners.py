"""More owners than a file on SSD has room for: it is written anew, and no page is lost for them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.page_file import encode
from engine.kv.page_header import MOST_BEGIN, NAMELESS
from engine.kv.ssd.notes import digest_of
from engine.kv.ssd.owners import forget_in_folder
from tests.engine.kv.spilled import IDENTITY, assert_holds, owners_in, pages, read, spilled
from tests.engine.kv.ssd.chats import forgotten, names, run_of
from tests.engine.kv.ssd.tiers import PLENTY, full, opened, page_files, stored


def test_owners_that_the_file_had_no_room_for_are_known_after_a_restart(tmp_path: Path) -> None:
    run, mixed = run_of("a"), run_of("a", first=100)
    tier = opened(tmp_path)
    stored(tier, run, mixed)
    for name in names(30):
        tier.claim(run.keys, name)
        tier.claim(mixed.keys[:1], name)
    tier.close(60)
    assert tier.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))
    assert tier.usage.written_today > tier.usage.total_bytes  # what is written anew is counted too
    again = opened(tmp_path)
    assert again.chat_bytes() == tier.chat_bytes()
    assert set(again.chat_bytes()) == {"a", *names(30)}
    forgotten(again, "a")
    assert [again.find(key) for key in (run.keys[0], *mixed.keys[:2])] == [True, True, False]
    assert_holds(read(again, run.keys, run.tokens), run.keys)
    assert set(opened(tmp_path).chat_bytes()) == set(names(30))
    assert list(tmp_path.rglob(".*.tmp")) == []


def test_a_file_is_seldom_written_anew_for_its_owners(tmp_path: Path) -> None:
    run = run_of("a")
    tier = opened(tmp_path)
    stored(tier, run)
    sizes = set[int]()
    for number, name in enumerate(names(150)):
        tier.claim(run.keys, name)
        stored(tier, run_of("b", first=1000 + 100 * number))  # owners are written down with every run
        sizes.add((tmp_path / IDENTITY.digest / f"{run.keys[-1].hex()}.safetensors").stat().st_size)
    assert len(sizes) <= 6
    assert set(opened(tmp_path).chat_bytes()) == {"a", "b", *names(150)}


def test_two_processes_with_more_owners_than_there_is_room_for_keep_each_other_s(tmp_path: Path) -> None:
    run = run_of("a")
    stored(opened(tmp_path), run)
    tiers = [opened(tmp_path) for _ in range(2)]
    for tier, kind in zip(tiers, "xy", strict=True):
        for name in names(30, kind):
            tier.claim(run.keys, name)
    for tier in tiers:
        tier.close(60)
    assert set(opened(tmp_path).chat_bytes()) == {"a", *names(30, "x"), *names(30, "y")}
    assert tiers[1].usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))


def test_a_file_that_is_written_anew_for_its_owners_goes_before_those_it_stands_on(tmp_path: Path) -> None:
    trunk = run_of("a")
    behind = spilled(trunk.keys[-1], pages(100, 4), ("a",))
    stored(opened(tmp_path), trunk, behind)
    tier = opened(tmp_path)
    for name in names(30):
        tier.claim(behind.keys, name)
    tier.close(60)
    times = {path.stem: path.stat().st_mtime_ns for path in page_files(tmp_path)}
    assert times[behind.keys[-1].hex()] < times[trunk.keys[-1].hex()]


def test_a_file_with_more_owners_makes_room_as_a_new_one_does(tmp_path: Path) -> None:
    trunk = run_of("a")
    behind = spilled(trunk.keys[-1], pages(100, 4), ("a",))
    others = [run_of("b", first=1000 * number) for number in range(1, 4)]
    stored(opened(tmp_path), trunk, behind, *others)
    size = max(path.stat().st_size for path in page_files(tmp_path))
    tier = opened(tmp_path, cap=5 * size)
    for name in names(9):
        tier.claim(behind.keys, name)
    tier.close(60)
    again = opened(tmp_path, cap=5 * size)
    assert [again.find(run.keys[0]) for run in (trunk, behind, *others)] == [True, True, False, False, True]
    assert set(again.chat_bytes()) == {"a", "b", *names(9)}


@pytest.mark.parametrize("lacks", ["cap", "disk"])
def test_owners_without_room_on_the_disk_cost_no_page(
    tmp_path: Path, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of("a")
    stored(opened(tmp_path), run)
    whole = page_files(tmp_path)[0].read_bytes()
    tier = opened(tmp_path, cap=len(whole) + 100 if lacks == "cap" else PLENTY)
    if lacks == "disk":
        monkeypatch.setattr(os, "fsync", full)
    for name in names(30):
        tier.claim(run.keys, name)
    tier.close(60)
    assert [path.read_bytes() for path in page_files(tmp_path)] == [whole]
    assert list(tmp_path.rglob(".*.tmp")) == []
    assert len(tier.chat_bytes()) == 31
    assert_holds(read(tier, run.keys, run.tokens), run.keys)


def test_no_header_is_longer_than_what_is_believed(tmp_path: Path) -> None:
    many = frozenset(names(30_000))
    header = encode(
        spilled(ROOT_KEY, pages(0, 4), [many, many, many - {names(1)[0]}, many]), IDENTITY, 0
    ).header
    assert MOST_BEGIN // 4 < header.payload_begin <= MOST_BEGIN
    assert all(NAMELESS in owners and owners < many | {NAMELESS} for owners in header.chats)


@pytest.mark.parametrize("are_claimed", [False, True])
def test_more_owners_than_a_header_can_name_cost_nobody_a_page(
    tmp_path: Path, are_claimed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("page_header", "page_file"):
        monkeypatch.setattr(f"engine.kv.{module}.MOST_BEGIN", 1 << 14)
    many = frozenset(names(600))
    tier, run = opened(tmp_path), spilled(ROOT_KEY, pages(0, 4), [many, many, many, many - {names(1)[0]}])
    if are_claimed:
        stored(tier, replace(run, chats=(frozenset({"a"}),) * 4))
        assert tier.put(run)
    else:
        stored(tier, run)
    tier.close(60)
    again = opened(tmp_path)
    assert again.quarantined_files == 0
    assert_holds(read(again, run.keys, run.tokens), run.keys)
    (path,) = page_files(tmp_path)
    again.claim(run.keys, "late")
    forgotten(again, "late")
    named = owners_in(tmp_path) - {NAMELESS}
    assert 100 < len(named) < 600
    assert path.stat().st_size < (1 << 14) + 2 * run.data.nbytes
    assert forget_in_folder(tmp_path, set(map(digest_of, named)))
    assert_holds(read(opened(tmp_path), run.keys, run.tokens), run.keys)
