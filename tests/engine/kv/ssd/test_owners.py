"""Whose pages on SSD are: known after a restart, and agreed on by several processes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.page_file import read_header
from engine.kv.ssd.owners import add_owners
from engine.kv.ssd.stored import StoredFile
from tests.engine.kv.spilled import IDENTITY, assert_holds, owners_in, pages, read, spilled
from tests.engine.kv.ssd.chats import busy, chats_of, names, run_of
from tests.engine.kv.ssd.tiers import opened, page_files, stored


def test_who_claims_a_page_owns_it_after_a_crash_once_that_is_settled(tmp_path: Path) -> None:
    run = run_of("first")
    tier = opened(tmp_path)
    stored(tier, run)
    tier.claim(run.keys[:2], "second")
    assert set(opened(tmp_path).chat_bytes()) == {"first"}
    before = page_files(tmp_path)
    tier.settle()
    assert tier.flush(60)
    assert set(opened(tmp_path).chat_bytes()) == {"first", "second"}
    assert page_files(tmp_path) == before
    times = [path.stat().st_mtime_ns for path in before]
    tier.settle()  # there is nothing to say
    assert tier.flush(60)
    assert [path.stat().st_mtime_ns for path in before] == times


def test_settling_and_storing_may_be_asked_for_at_once_and_at_the_end(tmp_path: Path) -> None:
    runs = [run_of("first", first=4 * number) for number in range(6)]
    tier = opened(tmp_path)
    stored(tier, runs[0])
    tier.claim(runs[0].keys, "second")
    for run in runs[1:]:
        tier.settle()
        assert tier.put(run)
        tier.claim(run.keys, "second")
    tier.settle()
    tier.close(60)
    tier.settle()  # nothing is written any more
    owned = opened(tmp_path).chat_bytes()
    assert owned["second"] == owned["first"]
    assert len(page_files(tmp_path)) == len(runs)


def test_two_processes_do_not_overwrite_each_other_s_owners(tmp_path: Path) -> None:
    run = run_of("first")
    first = opened(tmp_path)
    stored(first, run)
    second, third = opened(tmp_path), opened(tmp_path)
    first.claim(run.keys, "a")
    second.claim(run.keys[:2], "b")
    third.claim(run.keys[2:], "c")
    for tier in (first, second, third):
        tier.close(60)
    (path,) = page_files(tmp_path)
    assert chats_of(path) == (frozenset({"first", "a", "b"}),) * 2 + (frozenset({"first", "a", "c"}),) * 2
    assert set(opened(tmp_path).chat_bytes()) == {"first", "a", "b", "c"}


def test_owners_are_added_only_to_the_file_that_is_meant(tmp_path: Path) -> None:
    run = run_of("a")
    stored(opened(tmp_path), run)
    (path,) = page_files(tmp_path)
    whole, header = path.read_bytes(), read_header(path, IDENTITY)
    file, more = StoredFile.matched(path, 0, header), (frozenset({"a", "b"}),) * 4

    def rewrite(*_: object) -> bool:
        raise AssertionError("there is room")

    assert add_owners(file, replace(header, keys=run.keys[::-1]), more, rewrite) is None
    assert path.read_bytes() == whole
    path.write_bytes(damaged := whole[:300] + b"?" + whole[301:])
    assert add_owners(file, header, more, rewrite) is None
    assert path.read_bytes() == damaged


def test_a_file_in_another_s_place_has_the_owners_of_both(tmp_path: Path) -> None:
    whole = run_of("a")
    end = spilled(whole.keys[1], whole.tokens[2:], ("b",))
    tier = opened(tmp_path)
    stored(tier, end)
    stored(tier, whole)
    tier.close(60)
    (path,) = page_files(tmp_path)
    assert chats_of(path) == (frozenset({"a"}),) * 2 + (frozenset({"a", "b"}),) * 2


def test_owners_that_are_written_while_a_file_is_opened_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = spilled(ROOT_KEY, pages(0, 4), names(200))  # the header is read in two pieces
    tier = opened(tmp_path)
    stored(tier, run)
    writer, pread, calls = opened(tmp_path), os.pread, list[int]()

    def torn(file: int, size: int, offset: int) -> bytes:
        calls.append(offset)
        if len(calls) == 2:  # between both
            writer.claim(run.keys, "late")
            monkeypatch.setattr(os, "pread", pread)
            writer.close(60)
        return pread(file, size, offset)

    monkeypatch.setattr(os, "pread", torn)
    assert_holds(read(tier, run.keys, run.tokens), run.keys)
    assert calls == [0, 4096]
    assert tier.quarantined_files == 0
    assert "late" in owners_in(tmp_path)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_looks_damaged_while_another_process_writes_is_left_to_the_next_look(
    tmp_path: Path, is_damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of("a")
    stored(opened(tmp_path), run)
    (path,) = page_files(tmp_path)
    whole = path.read_bytes()
    early = opened(tmp_path)
    path.write_bytes(whole[:300] + b"?" + whole[301:])  # half written
    with busy(tmp_path, monkeypatch).locked():
        late = opened(tmp_path)
        for tier in (early, late):
            assert read(tier, run.keys, run.tokens) is None
            assert tier.quarantined_files == 0
        if not is_damaged:
            path.write_bytes(whole)
    stored(late, run_of("b", first=100))
    assert late.quarantined_files == is_damaged
    assert path.exists() is not is_damaged
    assert (read(late, run.keys, run.tokens) is None) is is_damaged
    early.close(60)
    late.close(60)
