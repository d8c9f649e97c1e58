"""Whose pages on SSD are: known after a restart, agreed on by several processes, and forgotten for good."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.kv.page_data import ROOT_KEY, SpilledRun
from engine.kv.page_file import encode, read_header
from engine.kv.page_header import MOST_BEGIN, NAMELESS, CacheIdentity, Chats, PageHeader
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.notes import Notes, digest_of
from engine.kv.ssd.owners import Forgotten, add_owners, forget_chats, forget_in_folder
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.stored import StoredFile
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, OTHER, assert_holds, forged, owners_in, pages, read, spilled

PLENTY = 1 << 30


def opened(folder: Path, identity: CacheIdentity = IDENTITY, cap: int = PLENTY) -> SsdTier:
    return SsdTier(SsdSettings(folder, cap, 0), identity)


def stored(tier: SsdTier, *runs: SpilledRun) -> None:
    for run in runs:
        assert tier.put(run)
    assert tier.flush(60)


def forgotten(tier: SsdTier, chat: str) -> None:
    """At once, and then in the files too, which a thread of its own does for the engine."""
    tier.forget_chat(chat)
    tier.remove_forgotten()


def run_of(*chats: str, first: int = 0) -> SpilledRun:
    return spilled(ROOT_KEY, pages(first, 4), chats)


def page_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.safetensors"))


def chats_of(path: Path) -> Chats:
    return read_header(path, None).chats


def busy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SsdFolder:
    """The folder, whose lock nobody waits for."""
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.0)
    return SsdFolder(folder, "", shutil.disk_usage)


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


def test_what_another_process_forgot_does_not_come_back(tmp_path: Path) -> None:
    run = run_of("kept", "secret")
    first = opened(tmp_path)
    stored(first, run)
    second = opened(tmp_path)
    second.claim(run.keys, "b")
    forgotten(first, "secret")
    second.close(60)
    assert owners_in(tmp_path) == {"kept", "b"}


@pytest.mark.parametrize("identity", [IDENTITY, OTHER])
def test_what_another_process_wrote_since_is_forgotten_too(tmp_path: Path, identity: CacheIdentity) -> None:
    mine, theirs, claimed = run_of("a"), run_of("secret", first=100), run_of("a", first=200)
    first = opened(tmp_path)
    stored(first, mine, claimed)
    second = opened(tmp_path, identity)
    stored(second, theirs)
    claiming = opened(tmp_path)
    claiming.claim(claimed.keys, "secret")
    claiming.close(60)
    forgotten(first, "secret")
    assert owners_in(tmp_path) == {"a"}
    assert len(page_files(tmp_path)) == 2
    assert first.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))


def test_a_page_that_was_just_claimed_is_not_forgotten_with_the_one_it_was_of(tmp_path: Path) -> None:
    run = run_of("secret")
    tier = opened(tmp_path)
    stored(tier, run)
    tier.claim(run.keys, "a")
    forgotten(tier, "secret")
    for again in (tier, opened(tmp_path)):
        assert_holds(read(again, run.keys, run.tokens), run.keys)
        assert set(again.chat_bytes()) == {"a"}


def test_files_that_lose_an_owner_stay_as_old_as_they_were(tmp_path: Path) -> None:
    runs = [run_of("a", "secret", first=100 * number) for number in range(3)]
    stored(opened(tmp_path), *runs)
    before = [path.stat().st_mtime_ns for path in page_files(tmp_path)]
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert [path.stat().st_mtime_ns for path in page_files(tmp_path)] == before


@pytest.mark.parametrize("writes", [False, True])
def test_what_is_forgotten_while_another_process_writes_goes_later(
    tmp_path: Path,
    writes: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own, shared, other = run_of("secret"), run_of("secret", "a", first=100), run_of("secret", first=200)
    stored(opened(tmp_path, OTHER), other)
    tier = opened(tmp_path)
    stored(tier, own, shared)
    stored(opened(tmp_path, OTHER), spilled(ROOT_KEY, pages(300, 4), ("secret",)))
    with busy(tmp_path, monkeypatch).locked():
        forgotten(tier, "secret")
        assert not tier.find(own.keys[0])
        assert set(tier.chat_bytes()) == {"a"}
    assert "another process is writing there" in caplog.text
    assert owners_in(tmp_path) == {"secret", "a"}
    if writes:
        stored(tier, run_of("b", first=900))
    else:
        tier.close(60)
    assert "secret" not in owners_in(tmp_path)
    assert tier.find(shared.keys[0])


def test_without_a_model_files_of_all_models_are_forgotten(tmp_path: Path) -> None:
    shared, mixed = run_of("a", "b"), spilled(ROOT_KEY, pages(100, 2), [frozenset("ab"), frozenset("a")])
    of_nobody = spilled(ROOT_KEY, pages(300, 4), [frozenset[str]()] * 4)
    stored(opened(tmp_path), shared, mixed, of_nobody)
    stored(opened(tmp_path, OTHER), run_of("a", first=400), run_of("b", first=500))
    leftover = tmp_path / OTHER.digest / f".{'ab' * 16}.tmp"
    leftover.write_bytes(b"half a file")
    assert forget_in_folder(tmp_path, {digest_of("a")})
    tier, other = opened(tmp_path), opened(tmp_path, OTHER)
    assert [tier.find(run.keys[0]) for run in (shared, mixed, of_nobody)] == [True, False, True]
    assert set(tier.chat_bytes()) == set(other.chat_bytes()) == {"b"}
    assert not leftover.exists()
    assert tier.quarantined_files == 0


def test_without_a_model_and_a_folder_there_is_nothing_to_forget(tmp_path: Path) -> None:
    assert forget_in_folder(tmp_path / "kv", {digest_of("a")})
    assert not (tmp_path / "kv").exists()


def test_what_cannot_be_forgotten_is_said(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = run_of("secret")
    stored(opened(small_disk), run)
    tier = opened(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    forgotten(tier, "secret")
    assert not tier.find(run.keys[0])
    assert not forget_in_folder(small_disk, {digest_of("secret")})
    warnings = [record.message for record in caplog.records]
    assert warnings == [f"pages of deleted chats stay in {small_disk} for now: Read-only file system"] * 2
    tier.close(60)


def test_what_is_not_ours_or_damaged_survives_a_forgotten_chat(tmp_path: Path) -> None:
    stored(opened(tmp_path), run_of("secret"), run_of("a", first=100))
    home = page_files(tmp_path)[0].parent
    foreign = home / f"{'cd' * 16}.safetensors"
    foreign.write_bytes(b"of a newer layout")
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert foreign.read_bytes() == b"of a newer layout"
    assert len(page_files(tmp_path)) == 2


def test_a_file_whose_owners_cannot_be_written_anew_in_place_goes_with_the_chat(tmp_path: Path) -> None:
    others = [f"{number}" + "\N{SNOWMAN}" * 40 for number in range(9)]
    stored(opened(tmp_path), run_of("secret", *others))
    (path,) = page_files(tmp_path)

    def shorter(header: dict[str, Any]) -> None:
        chats = json.loads(header["__metadata__"]["chats"])
        header["__metadata__"]["chats"] = json.dumps(chats, ensure_ascii=False)

    forged(path, shorter)
    assert owners_in(tmp_path) == {"secret", *others}
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert page_files(tmp_path) == []


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


def names(count: int, kind: str = "") -> list[str]:
    """As long as those of chats are."""
    return [f"{kind}{number:036d}" for number in range(count)]


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
    assert [again.find(key) for key in (run.keys[0], mixed.keys[0])] == [True, False]
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


def test_what_is_written_down_of_a_chat_stays_while_a_file_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of("secret")
    stored(opened(tmp_path), run)

    def unreadable(path: Path, identity: CacheIdentity | None) -> PageHeader:
        raise OSError(errno.EIO, "Input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr("engine.kv.ssd.owners.read_header", unreadable)
        assert not forget_in_folder(tmp_path, {digest_of("secret")})
    assert Notes(tmp_path).read() == {digest_of("secret")}
    tier = opened(tmp_path)
    assert not tier.find(run.keys[0])
    assert (page_files(tmp_path), Notes(tmp_path).read()) == ([], set())


def test_pages_that_are_nobody_s_stay_where_a_chat_s_are_another_s_too(tmp_path: Path) -> None:
    run = spilled(ROOT_KEY, pages(0, 2), [frozenset({"a", "b"}), frozenset[str]()])
    stored(opened(tmp_path), run)
    assert forget_in_folder(tmp_path, {digest_of("a")})
    (path,) = page_files(tmp_path)
    assert chats_of(path) == (frozenset({"b"}), frozenset[str]())


def test_that_a_chat_is_deleted_is_on_the_disk_before_any_file_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(opened(tmp_path), run_of("secret"))
    seen, fsync = list[tuple[set[str], int]](), os.fsync

    def noted(descriptor: int) -> None:
        seen.append((Notes(tmp_path).read(), len(page_files(tmp_path))))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert seen[0] == ({digest_of("secret")}, 1)
    assert page_files(tmp_path) == []


def test_what_another_process_wrote_down_and_could_not_do_is_done_with_the_next_write(tmp_path: Path) -> None:
    secret, both = run_of("secret"), run_of("secret", "a", first=2000)
    tier = opened(tmp_path)
    stored(tier, secret, both)
    Notes(tmp_path).write({digest_of("secret")})
    stored(tier, run_of("a", first=1000))
    assert not tier.find(secret.keys[0])
    assert tier.find(both.keys[0])
    assert set(tier.chat_bytes()) == {"a"}
    assert owners_in(tmp_path) == {"a"}
    assert Notes(tmp_path).read() == set()


def test_what_a_writer_that_is_gone_has_left_goes_with_deleted_chats(tmp_path: Path) -> None:
    run = run_of("a")
    stored(opened(tmp_path), run)
    left = tmp_path / IDENTITY.digest / f".{'ab' * 16}.tmp"
    left.write_bytes(b"half a file of a deleted chat")
    assert forget_in_folder(tmp_path, {digest_of("b")})
    assert not left.exists()
    assert len(page_files(tmp_path)) == 1


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


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


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


def test_a_file_in_another_s_place_is_not_a_chat_s_that_another_process_forgot(tmp_path: Path) -> None:
    whole = run_of("a")
    end = spilled(whole.keys[1], whole.tokens[2:], ("b", "secret"))
    first = opened(tmp_path)
    stored(first, end)
    second = opened(tmp_path)
    forgotten(first, "secret")
    stored(second, whole)
    second.close(60)
    (path,) = page_files(tmp_path)
    assert chats_of(path) == (frozenset({"a"}),) * 2 + (frozenset({"a", "b"}),) * 2


@pytest.mark.parametrize("is_busy", [False, True])
def test_who_forgets_a_chat_reads_no_page_file_and_waits_for_nobody(
    tmp_path: Path, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = run_of("secret"), run_of("secret", "b", first=100)
    tier = opened(tmp_path)
    stored(tier, own, shared)
    with ExitStack() as stack:
        if is_busy:
            stack.enter_context(SsdFolder(tmp_path, "", shutil.disk_usage).locked())
        patch = stack.enter_context(monkeypatch.context())
        for name in ("open", "read", "pread", "unlink", "fsync", "stat"):
            patch.setattr(os, name, but_for_the_note(getattr(os, name)))
        patch.setattr("engine.kv.ssd.folder._wait_for", None)
        tier.forget_chat("secret")
        assert [tier.find(run.keys[0]) for run in (own, shared)] == [False, True]
        assert set(tier.chat_bytes()) == {"b"}
    assert owners_in(tmp_path) == {"secret", "b"}
    tier.remove_forgotten()
    assert owners_in(tmp_path) == {"b"}
    assert tier.forgotten == set()
    assert list(tmp_path.glob("*.forgotten")) == []


def but_for_the_note(call: Callable[..., object]) -> Callable[..., object]:
    """A system call that nobody may make but for a note."""

    def checked(target: object, *args: object, **kwargs: object) -> object:
        assert str(target).endswith(".forgotten")
        return call(target, *args, **kwargs)

    return checked


@pytest.mark.parametrize("identity", [IDENTITY, OTHER])
def test_a_chat_is_forgotten_for_good_when_its_process_dies_at_once(
    tmp_path: Path, identity: CacheIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = run_of("secret"), run_of("secret", "b", first=100)
    dead = opened(tmp_path)
    stored(dead, own, shared)
    dead.forget_chat("secret")  # and nothing more: it is killed
    with busy(tmp_path, monkeypatch).locked():
        early = opened(tmp_path)  # while another process writes: nobody can remove anything
        assert [early.find(run.keys[0]) for run in (own, shared)] == [False, True]
        assert set(early.chat_bytes()) == {"b"}
        assert owners_in(tmp_path) == {"secret", "b"}
    late = opened(tmp_path, identity)
    assert owners_in(tmp_path) == {"b"}
    assert list(tmp_path.glob("*.forgotten")) == []
    assert late.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))
    early.close(10)
    assert early.forgotten == set()


def test_a_forgotten_chat_is_not_found_again_where_another_process_writes_its_file_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of("secret")
    tier = opened(tmp_path)
    stored(tier, run)
    other = opened(tmp_path)
    for name in names(30):
        other.claim(run.keys[:2], name)  # its end is the chat's alone
    with monkeypatch.context() as patch:
        patch.setattr("engine.kv.ssd.owners.forget_chats", lambda *_: Forgotten({}, False))
        tier.forget_chat("secret")
        other.close(10)  # the file has another size
        stored(tier, run_of("b", first=900))  # which learns what changed
        assert not tier.find(run.keys[0])
        assert set(tier.chat_bytes()) == {"b"}
    tier.remove_forgotten()
    assert owners_in(tmp_path) == {"b"}


def test_a_file_that_another_process_has_claimed_outlives_the_chat_it_was_of(tmp_path: Path) -> None:
    run = run_of("secret")
    tier = opened(tmp_path)
    stored(tier, run)
    claiming = opened(tmp_path)
    claiming.claim(run.keys, "b")
    claiming.close(10)
    tier.forget_chat("secret")
    assert not tier.find(run.keys[0])  # for all that is known here
    tier.remove_forgotten()
    assert_holds(read(tier, run.keys, run.tokens), run.keys)
    assert set(tier.chat_bytes()) == owners_in(tmp_path) == {"b"}


def test_what_was_written_down_goes_only_when_the_rest_would_stay_through_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = run_of("secret"), run_of("secret", "b", first=100)
    tier = opened(tmp_path)
    stored(tier, own, shared)
    home = tmp_path / IDENTITY.digest
    changed = {path.stat().st_ino for path in (home, home / f"{shared.keys[-1].hex()}.safetensors")}
    synced, fsync = list[int](), os.fsync

    def seen(descriptor: int) -> None:
        assert list(tmp_path.glob("*.forgotten")) != []
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    tier.forget_chat("secret")
    assert synced == []
    tier.remove_forgotten()
    assert synced[0] == tmp_path.stat().st_ino  # the note itself
    assert set(synced[1:]) == changed
    assert list(tmp_path.glob("*.forgotten")) == []


@pytest.mark.parametrize("is_open", [False, True])
def test_what_could_not_be_forgotten_before_the_end_is_with_the_next_start(
    tmp_path: Path, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = run_of("secret"), run_of("secret", "b", first=100)
    stored(opened(tmp_path), own, shared)
    with busy(tmp_path, monkeypatch).locked():
        if is_open:
            tier = opened(tmp_path)
            forgotten(tier, "secret")
            tier.close(60)
            assert tier.forgotten == {digest_of("secret")}
        else:
            assert not forget_in_folder(tmp_path, {digest_of("secret")})
    assert "secret" in owners_in(tmp_path)
    again = opened(tmp_path, OTHER)
    assert owners_in(tmp_path) == {"b"}
    assert again.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))
    assert list(tmp_path.glob("*.forgotten")) == []


def test_files_that_cannot_go_yet_are_tried_again_but_not_with_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stored(opened(tmp_path), run_of("secret"))
    tier = opened(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        forgotten(tier, "secret")
        assert not tier.find(run_of("secret").keys[0])
        said = len(caplog.records)
        assert said > 0
        stored(tier, run_of("b", first=100))
        assert len(caplog.records) == said
        tier.remove_forgotten()
        assert len(caplog.records) > said
        assert tier.forgotten == {digest_of("secret")}
        assert not forget_in_folder(tmp_path, {digest_of("secret")})
    tier.remove_forgotten()
    assert owners_in(tmp_path) == {"b"}
    assert tier.forgotten == set()
    assert list(tmp_path.glob("*.forgotten")) == []


def refused(*args: object, **kwargs: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", "disk")


def test_a_file_that_the_disk_does_not_let_lose_an_owner_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(opened(tmp_path), run_of("secret", "b"))
    monkeypatch.setattr("engine.kv.ssd.owners.write_chats", full)
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert page_files(tmp_path) == []


@pytest.mark.parametrize("text", [b"", b"[", b"7", b'"another"', b"\0" * 4096])
def test_whatever_is_in_a_note_it_says_by_its_name_which_chat_was_deleted(
    tmp_path: Path, text: bytes
) -> None:
    stored(opened(tmp_path), run_of("secret"), run_of("another", first=100))
    Notes(tmp_path).path_of(digest_of("secret")).write_bytes(text)
    assert opened(tmp_path).reason == ""
    assert owners_in(tmp_path) == {"another"}
    assert list(tmp_path.glob("*.forgotten")) == []


def test_a_note_of_a_chat_that_nobody_knows_goes_and_what_is_no_file_stays(tmp_path: Path) -> None:
    stored(opened(tmp_path), run_of("a"))
    (tmp_path / f"{'ab' * 16}.forgotten").write_bytes(b"somebody else's")
    folder = tmp_path / f"{'cd' * 16}.forgotten"
    folder.mkdir()
    tier = opened(tmp_path)
    assert tier.forgotten == set()
    assert list(tmp_path.glob("*.forgotten")) == [folder]
    assert owners_in(tmp_path) == {"a"}


def test_a_note_that_cannot_go_is_not_read_with_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(opened(tmp_path), run_of("a"))
    tier, passes = opened(tmp_path), list[object]()
    monkeypatch.setattr(Notes, "remove", refused)
    monkeypatch.setattr("engine.kv.ssd.owners.forget_chats", counting(passes))
    forgotten(tier, "secret")
    stored(tier, run_of("b", first=100))
    stored(tier, run_of("b", first=200))
    assert len(passes) == 1


def counting(passes: list[object]) -> Callable[..., Forgotten]:
    def counted(folder: SsdFolder, digests: frozenset[str]) -> Forgotten:
        passes.append(digests)
        return forget_chats(folder, digests)

    return counted
