"""The SSD tier on a real disk: what it finds again, what it removes, what it does when it cannot write."""

from __future__ import annotations

import errno
import json
import logging
import os
import resource
import shutil
import signal
import stat
import subprocess
import threading
from collections import namedtuple
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY, SpilledRun
from engine.kv.page_file import encode
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd import folder as ssd_folder
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.index import ChatBytes
from engine.kv.ssd.notes import digest_of
from engine.kv.ssd.owners import forget_in_folder
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from engine.kv.stores import Room
from tests.engine.kv.spilled import IDENTITY, OTHER, Pages, assert_holds, pages, read, spilled

DAY = 86_400
PLENTY = 1 << 30

Usage = namedtuple("Usage", "total used free")


class Clock:
    """Seconds since 1970, as the test says."""

    def __init__(self) -> None:
        self.now = 20_000.5 * DAY

    def __call__(self) -> float:
        return self.now


def opened(
    folder: Path,
    identity: CacheIdentity = IDENTITY,
    cap: int = PLENTY,
    floor: int = 0,
    clock: Clock | None = None,
    queue_bytes: int = PLENTY,
) -> SsdTier:
    return SsdTier(SsdSettings(folder, cap, floor), identity, clock=clock or Clock(), queue_bytes=queue_bytes)


def page_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.safetensors"))


def chain(runs: int, first: int = 0, length: int = 4) -> list[SpilledRun]:
    """Runs of one sequence, one behind the other."""
    made: list[SpilledRun] = []
    parent = ROOT_KEY
    for number in range(runs):
        made.append(spilled(parent, pages(first + 100 * number, length)))
        parent = made[-1].keys[-1]
    return made


def stored(tier: SsdTier, *runs: SpilledRun) -> None:
    for run in runs:
        assert tier.put(run)
    assert tier.flush(60)


def file_size(run: SpilledRun) -> int:
    return encode(run, IDENTITY, 0).header.size


def found(tier: SsdTier, runs: list[SpilledRun]) -> list[bool]:
    return [all(tier.find(key) for key in run.keys) for run in runs]


def test_pages_come_back_from_files_in_this_run_and_the_next(tmp_path: Path) -> None:
    one, two = chain(2)
    tier = opened(tmp_path)
    assert not tier.find(one.keys[0])
    assert read(tier, one.keys, one.tokens) is None
    stored(tier, one, two)
    for again in (tier, opened(tmp_path)):
        assert found(again, [one, two]) == [True, True]
        assert_holds(read(again, one.keys, one.tokens), one.keys)
        assert_holds(read(again, two.keys[1:3], two.tokens[1:3]), two.keys[1:3])
        both = one.keys[2:] + two.keys[:3]
        assert_holds(read(again, both, one.tokens[2:] + two.tokens[:3]), both)
        assert read(again, [*one.keys, b"?" * 16], [*one.tokens, (1, 2, 3, 4)]) is None
    assert len(page_files(tmp_path)) == 2
    assert tier.written_pages == 8
    assert tier.usage.total_bytes == sum(file.stat().st_size for file in page_files(tmp_path))


@pytest.fixture
def no_umask() -> Generator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Permissions of a folder and of all in it."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.mark.usefixtures("no_umask")
def test_pages_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    run = chain(1)[0]
    home = tmp_path / "data" / "kv"
    stored(opened(home), run)
    file = f"{run.keys[-1].hex()}.safetensors"
    private = {"kv": 0o700, IDENTITY.digest: 0o700, file: 0o600, "ledger.json": 0o600, "lock": 0o600}
    assert modes(home) == private


def test_what_older_versions_left_open_is_closed_and_nothing_else(tmp_path: Path) -> None:
    run, other = chain(1)[0], tmp_path / "kept" / "notes.txt"
    home, shared = tmp_path / "kv", tmp_path / "kept"
    for folder in (home, shared):
        stored(opened(folder), run)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    other.write_text("of somebody else")
    other.chmod(0o644)
    for folder in (home, shared):
        assert found(opened(folder), [run]) == [True]
    file = f"{run.keys[-1].hex()}.safetensors"
    private = {IDENTITY.digest: 0o700, file: 0o600, "ledger.json": 0o600, "lock": 0o600}
    assert modes(home) == {"kv": 0o700, **private}
    assert modes(shared) == {"kept": 0o755, "notes.txt": 0o644, **private}


def test_a_run_is_found_while_it_waits_and_the_queue_is_bounded(tmp_path: Path) -> None:
    runs = chain(4)
    tier = opened(tmp_path, queue_bytes=3 * runs[0].data.nbytes)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():  # the writer must wait
        assert [tier.put(run) for run in runs] == [True, True, True, False]
        assert found(tier, runs) == [True, True, True, False]
        both = runs[0].keys + runs[1].keys
        assert_holds(read(tier, both, runs[0].tokens + runs[1].tokens), both)
        assert read(tier, runs[0].keys, runs[1].tokens) is None
        assert not tier.flush(0.01)
        assert page_files(tmp_path) == []
    assert tier.flush(60)
    assert len(page_files(tmp_path)) == 3


def test_a_run_that_is_larger_than_the_queue_is_written_alone(tmp_path: Path) -> None:
    one, two = chain(2)
    size = one.data.nbytes
    tier = opened(tmp_path, queue_bytes=size - 1)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():  # the writer must wait
        assert tier.put(one)
        assert tier.room(size, tier.tick()) is Room.LATER
        assert not tier.put(two)
    assert tier.flush(60)
    stored(tier, two)
    assert found(tier, [one, two]) == [True, True]


def test_at_the_end_what_cannot_be_written_in_time_is_dropped_whole(tmp_path: Path) -> None:
    tier = opened(tmp_path)
    run = chain(1)[0]
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():
        assert tier.put(run)
        tier.close(0.05)
        assert not tier.put(run)
    tier.close(60)
    assert not tier.find(run.keys[0])
    assert list(tmp_path.rglob("*.safetensors")) + list(tmp_path.rglob(".*.tmp")) == []


def test_at_the_end_what_can_be_written_is(tmp_path: Path) -> None:
    tier = opened(tmp_path)
    runs = chain(20)
    assert all(tier.put(run) for run in runs)
    tier.close(60)
    assert found(opened(tmp_path), runs) == [True] * 20


@pytest.mark.parametrize("is_chat", [False, True])
def test_a_run_that_was_forgotten_while_it_was_written_is_not_there(
    tmp_path: Path, is_chat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = spilled(ROOT_KEY, pages(0, 3)), spilled(ROOT_KEY, pages(50, 3), ("else",))
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.0)
    has_begun, may_end = held_up(monkeypatch)
    tier = opened(tmp_path)
    assert tier.put(run)
    assert has_begun.wait(60)
    assert tier.put(other)
    if is_chat:
        tier.forget_chat("chat")
    else:
        tier.quarantine(run.keys[1:2])
    assert not tier.find(run.keys[0])
    may_end.set()
    tier.close(60)
    assert [path.stem for path in page_files(tmp_path)] == [other.keys[-1].hex()]


def test_a_run_whose_chat_is_forgotten_before_it_is_written_never_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed behind the write, and before the file is removed again, nobody would know of it."""
    tier, has_begun, may_go, written = opened(tmp_path), threading.Event(), threading.Event(), list[Path]()
    wait_for = ssd_folder._wait_for  # pyright: ignore[reportPrivateUsage]

    def waiting(lock: int, seconds: float) -> None:
        if threading.current_thread().name == "mlxr-ssd":
            has_begun.set()
            assert may_go.wait(10)
        wait_for(lock, seconds)

    monkeypatch.setattr(ssd_folder, "_wait_for", waiting)
    monkeypatch.setattr(SsdFolder, "write", lambda _self, path, _buffers: written.append(path))
    assert tier.put(chain(1)[0])
    assert has_begun.wait(10)
    tier.forget_chat("chat")
    tier.remove_forgotten()
    may_go.set()
    tier.close(10)
    assert written == []


def held_up(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Writing a file ends only when it may: the events that it has begun, and that it may end."""
    sync, has_begun, may_end = os.fsync, threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        has_begun.set()
        assert may_end.wait(60)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    return has_begun, may_end


def test_the_same_hash_with_other_tokens_is_not_served(tmp_path: Path) -> None:
    run = chain(1)[0]
    tier = opened(tmp_path)
    stored(tier, run)
    other = (run.tokens[0], (9, 9, 9, 9), *run.tokens[2:])
    assert read(tier, run.keys, other) is None
    assert tier.quarantined_files == 0
    assert_holds(read(tier, run.keys, run.tokens), run.keys)  # whose file is right, and stays


def test_pages_of_another_model_are_not_found(tmp_path: Path) -> None:
    run = chain(1)[0]
    stored(opened(tmp_path), run)
    other = opened(tmp_path, OTHER)
    assert not other.find(run.keys[0])
    assert other.chat_bytes() == {}
    assert other.usage.total_bytes == file_size(run)  # but they take the same space
    moved = page_files(tmp_path)[0].rename(tmp_path / OTHER.digest)  # nor where they pretend to be its own
    moved.rename(tmp_path / "kept")
    (tmp_path / OTHER.digest).mkdir()
    intruder = (tmp_path / "kept").rename(tmp_path / OTHER.digest / f"{run.keys[-1].hex()}.safetensors")
    again = opened(tmp_path, OTHER)
    assert not again.find(run.keys[0])
    assert again.quarantined_files == 1
    assert not intruder.exists()


def test_what_is_not_ours_by_name_is_left_alone(tmp_path: Path) -> None:
    run = chain(1)[0]
    stored(opened(tmp_path), run)
    home = page_files(tmp_path)[0].parent
    (home / f"{run.keys[0].hex()}.safetensors").mkdir()
    foreign = [
        tmp_path / "notes.txt",
        tmp_path / f"{run.keys[0].hex()}.safetensors",
        home / "model.safetensors",
        home / f"{run.keys[0].hex()}.safetensors.bak",
        home / ".hidden.tmp",
        tmp_path / "a-folder" / f"{run.keys[0].hex()}.safetensors",
        tmp_path / "a-folder" / f".{run.keys[0].hex()}.tmp",
    ]
    (tmp_path / "a-folder").mkdir()
    for path in foreign:
        path.write_bytes(b"theirs")
    tier = opened(tmp_path, cap=file_size(run))
    assert tier.usage.total_bytes == file_size(run)
    stored(tier, spilled(ROOT_KEY, pages(500, 4)))
    assert tier.quarantined_files == 0
    assert [path.read_bytes() for path in foreign] == [b"theirs"] * len(foreign)


def test_leftovers_of_a_writer_that_is_gone_are_removed(tmp_path: Path) -> None:
    stored(opened(tmp_path), *chain(1))
    for identity in (IDENTITY, OTHER):
        (tmp_path / identity.digest).mkdir(exist_ok=True)
        (tmp_path / identity.digest / f".{'ab' * 16}.tmp").write_bytes(b"half a file")
    opened(tmp_path)
    assert list(tmp_path.rglob(".*.tmp")) == []


@pytest.mark.parametrize("where", ["header", "tokens", "pages", "cut", "empty"])
def test_a_damaged_file_is_removed_and_counted(tmp_path: Path, where: str) -> None:
    runs = chain(3)
    stored(opened(tmp_path), *runs)
    path = tmp_path / IDENTITY.digest / f"{runs[1].keys[-1].hex()}.safetensors"
    whole = bytearray(path.read_bytes())
    if where in ("cut", "empty"):
        del whole[len(whole) - 1 if where == "cut" else 0 :]
    else:
        whole[{"header": 40, "tokens": len(whole) - 1100, "pages": -1}[where]] ^= 4
    path.write_bytes(whole)
    tier = opened(tmp_path)
    all_keys = [key for run in runs for key in run.keys]
    all_tokens = [page for run in runs for page in run.tokens]
    assert read(tier, all_keys, all_tokens) is None
    assert found(tier, runs) == [True, False, True]
    assert tier.quarantined_files == 1
    assert not path.exists()
    assert tier.usage.total_bytes == sum(file.stat().st_size for file in page_files(tmp_path))
    stored(tier, runs[1])
    assert_holds(read(tier, all_keys, all_tokens), all_keys)


def test_a_file_that_went_away_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = chain(1)[0]
    tier = opened(tmp_path)
    stored(tier, run)
    page_files(tmp_path)[0].unlink()
    assert read(tier, run.keys, run.tokens) is None
    assert not tier.find(run.keys[0])
    assert (tier.usage.total_bytes, tier.quarantined_files) == (0, 0)
    assert not caplog.records  # files make room for newer ones while others are read: nothing to tell


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_file_that_can_be_neither_read_nor_removed_still_counts(
    tmp_path: Path, is_damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = chain(2)
    tier = opened(tmp_path)
    stored(tier, run)
    path = page_files(tmp_path)[0]
    if is_damaged:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        monkeypatch.setattr(os, "unlink", refused)
    else:
        monkeypatch.setattr("engine.kv.ssd.files.read_run", refused)
    assert read(tier, run.keys, run.tokens) is None
    assert not tier.find(run.keys[0])
    assert tier.usage.total_bytes == path.stat().st_size
    stored(tier, other)
    assert tier.usage.total_bytes == sum(file.stat().st_size for file in page_files(tmp_path))


def refused(*args: object, **kwargs: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", "disk")


def test_a_file_that_cannot_be_looked_at_any_more_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = chain(1)[0]
    tier = opened(tmp_path)
    stored(tier, run)
    for name in ("stat", "unlink"):
        monkeypatch.setattr(os, name, refused)
    tier.quarantine(run.keys)
    assert not tier.find(run.keys[0])


def test_a_waiting_run_can_be_quarantined(tmp_path: Path) -> None:
    run = chain(1)[0]
    tier = opened(tmp_path)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():
        assert tier.put(run)
        tier.quarantine(run.keys[:1])
        assert not tier.find(run.keys[0])
    tier.close(60)
    assert page_files(tmp_path) == []


def test_quarantine_removes_the_file_and_counts_it(tmp_path: Path) -> None:
    runs = chain(2)
    tier = opened(tmp_path)
    stored(tier, *runs)
    tier.quarantine(runs[0].keys[1:3])
    assert found(tier, runs) == [False, True]
    assert tier.quarantined_files == 1
    assert found(opened(tmp_path), runs) == [False, True]


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


def test_bytes_written_are_counted_by_day_over_runs_and_processes(tmp_path: Path) -> None:
    runs, clock = chain(4), Clock()
    first, second = opened(tmp_path, clock=clock), opened(tmp_path, OTHER, clock=clock)
    assert first.usage.written_today == 0
    stored(first, runs[0])
    stored(second, runs[1])
    stored(first, runs[2])
    size = file_size(runs[0])
    assert abs(first.usage.written_today - 3 * size) < 8
    assert second.usage.written_today == first.usage.written_today
    assert abs(opened(tmp_path, clock=clock).usage.written_today - 3 * size) < 8
    clock.now += DAY
    assert first.usage.written_today == 0
    stored(first, runs[3])
    assert abs(first.usage.written_today - size) < 8
    clock.now -= DAY
    assert abs(first.usage.written_today - 3 * size) < 8


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"mark": 1}', '{"mark": "a", "written": {"x": 1}}', "\x00", "[" * 200_000],
    ids=range(7),
)
def test_a_damaged_ledger_counts_from_nothing(tmp_path: Path, text: str) -> None:
    runs = chain(2)
    stored(opened(tmp_path), runs[0])
    (tmp_path / "ledger.json").write_text(text)
    tier = opened(tmp_path)
    assert tier.usage.written_today == 0
    stored(tier, runs[1])
    assert tier.usage.written_today == file_size(runs[1])
    assert found(tier, runs) == [True, True]


def test_for_a_pipe_in_the_ledger_s_place_nobody_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ledger.json")
    (run,) = chain(1)
    tier = opened(tmp_path)
    stored(tier, run)
    assert tier.usage.written_today == file_size(run)
    assert (tmp_path / "ledger.json").is_file()


def test_what_the_cache_takes_is_told_by_each_model_as_another_has_just_changed_it(tmp_path: Path) -> None:
    runs, cap = chain(4), 2 * file_size(chain(1)[0]) + 60
    first, second = opened(tmp_path, cap=cap), opened(tmp_path, OTHER, cap=cap)

    def told() -> tuple[int, int]:
        assert first.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))
        return first.usage.total_bytes, second.usage.total_bytes

    size = file_size(runs[0])
    stored(second, runs[0])
    assert told() == (size, size)
    stored(first, runs[1])
    stored(second, runs[2])  # in place of the oldest
    assert told() == (2 * size, 2 * size)
    first.quarantine(runs[1].keys)
    stored(second, replace(runs[3], chats=(frozenset({"other"}),) * 4))
    assert told() == (2 * size, 2 * size)
    second.forget_chat("other")
    second.remove_forgotten()
    assert told() == (size, size)
    assert forget_in_folder(tmp_path, {digest_of("chat")})  # by a process that has no model any more
    assert told() == (0, 0)


def test_a_folder_without_a_total_in_its_ledger_is_counted(tmp_path: Path) -> None:
    (run,) = chain(1)
    stored(opened(tmp_path), run)
    told = json.loads((tmp_path / "ledger.json").read_text())
    assert told.pop("total") == file_size(run)
    (tmp_path / "ledger.json").write_text(json.dumps(told))  # as an older version wrote it
    assert opened(tmp_path).usage.total_bytes == file_size(run)


def test_a_clock_that_jumps_changes_neither_order_nor_readiness(tmp_path: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(6)]
    cap, clock = 6 * file_size(runs[0]) + 60, Clock()
    tier = opened(tmp_path, cap=cap, clock=clock)
    for run, now in zip(runs, (2e9, 1e9, 4e9, 0.0, -5.0, 1.7e9), strict=True):
        clock.now = now
        stored(tier, run)
    assert_holds(read(tier, runs[0].keys, runs[0].tokens), runs[0].keys)
    tier.close(1)
    again = opened(tmp_path, cap=cap, clock=clock)
    stored(again, *(chain(1, 9000 + 1000 * number)[0] for number in range(3)))
    assert found(again, runs) == [True, False, False, False, True, True]
    assert len(json.loads((tmp_path / "ledger.json").read_text())["written"]) == 6


def test_only_so_many_days_are_kept(tmp_path: Path) -> None:
    clock = Clock()
    tier = opened(tmp_path, clock=clock)
    for number in range(40):
        clock.now += DAY
        stored(tier, chain(1, 1000 * number)[0])
    days = [int(day) for day in json.loads((tmp_path / "ledger.json").read_text())["written"]]
    assert sorted(days) == list(range(20_009, 20_041))


def test_bytes_are_counted_for_each_chat(tmp_path: Path) -> None:
    sets = [frozenset(names) for names in (("a", "b"), ("a",), ("a",), ())]
    run = spilled(ROOT_KEY, pages(0, 4), sets)
    page = run.data.nbytes // 4
    tier = opened(tmp_path)
    stored(tier, run, spilled(run.keys[0], pages(100, 2), ("b",)))
    for again in (tier, opened(tmp_path)):
        assert again.chat_bytes() == {"a": ChatBytes(3 * page, page), "b": ChatBytes(3 * page, page)}
    tier.claim([run.keys[1], b"?" * 16], "c")
    tier.claim(run.keys[:2], "c")
    assert tier.chat_bytes() == {
        "a": ChatBytes(3 * page, 2 * page),
        "b": ChatBytes(3 * page, page),
        "c": ChatBytes(2 * page, 2 * page),
    }
    assert tier.put(replace(run, chats=(frozenset(("d",)),) * 4))  # is there already, and now also d's
    assert tier.chat_bytes()["d"] == ChatBytes(4 * page, 3 * page)
    before = tier.chat_bytes()
    tier.close(1)
    tier = opened(tmp_path)
    assert tier.chat_bytes() == before
    tier.quarantine(run.keys[:1])
    assert tier.chat_bytes() == {"b": ChatBytes(2 * page, 0)}


def test_a_page_that_waits_is_claimed_too(tmp_path: Path) -> None:
    run = chain(1)[0]
    tier = opened(tmp_path)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():
        assert tier.put(run)
        tier.claim(run.keys[:1], "late")
        assert tier.put(replace(run, chats=(frozenset(("later",)),) * 4))
        assert_holds(read(tier, run.keys, run.tokens), run.keys)
    assert tier.flush(60)
    page = run.data.nbytes // 4
    expected = {
        "chat": ChatBytes(4 * page, 4 * page),
        "late": ChatBytes(page, page),
        "later": ChatBytes(4 * page, 4 * page),
    }
    assert tier.chat_bytes() == expected
    assert opened(tmp_path).chat_bytes() == expected


def test_a_forgotten_chat_leaves_nothing_that_was_only_its_own(tmp_path: Path) -> None:
    shared = spilled(ROOT_KEY, pages(0, 4), ("a", "b"))
    mixed = spilled(shared.keys[-1], pages(100, 2), [frozenset("ab"), frozenset("a")])
    own_of_b = spilled(shared.keys[-1], pages(200, 4), ("b",))
    of_nobody = spilled(ROOT_KEY, pages(300, 4), [frozenset[str]()] * 4)
    elsewhere = spilled(ROOT_KEY, pages(400, 4), ("a",))
    stored(opened(tmp_path, OTHER), elsewhere)
    tier = opened(tmp_path)
    stored(tier, shared, mixed, own_of_b, of_nobody)
    tier.forget_chat("a")
    assert found(tier, [shared, mixed, own_of_b, of_nobody]) == [True, False, True, True]
    assert not opened(tmp_path, OTHER).find(elsewhere.keys[0])
    assert set(tier.chat_bytes()) == {"b"}
    assert tier.chat_bytes()["b"].shared == 0
    tier = opened(tmp_path)  # without an end: a crash does not bring a forgotten chat back
    assert set(tier.chat_bytes()) == {"b"}
    tier.forget_chat("b")
    assert found(tier, [shared, mixed, own_of_b, of_nobody]) == [False, False, False, True]
    tier.remove_forgotten()
    assert len(page_files(tmp_path)) == 1


def test_two_processes_see_each_others_pages_and_keep_one_cap(tmp_path: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(30)]
    cap = 10 * file_size(runs[0]) + 100
    first, second = opened(tmp_path, cap=cap), opened(tmp_path, cap=cap)
    threads = [
        threading.Thread(target=lambda tier=tier, part=part: stored(tier, *part))
        for tier, part in ((first, runs[::2]), (second, runs[1::2]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    there = {path.stem for path in page_files(tmp_path)}
    assert len(there) == 10
    for tier in (first, second):
        for run in runs:
            if run.keys[-1].hex() not in there:
                assert read(tier, run.keys, run.tokens) is None
        stored(tier, spilled(ROOT_KEY, pages(77_000, 4)))  # whoever writes learns what the other did
    assert sum(path.stat().st_size for path in page_files(tmp_path)) <= cap
    there = {path.stem for path in page_files(tmp_path)}
    assert [run for run in runs if second.find(run.keys[0])] == [
        run for run in runs if run.keys[-1].hex() in there
    ]


def test_a_file_that_another_process_replaced_is_learnt_anew(tmp_path: Path) -> None:
    tokens: Pages = pages(0, 6)
    whole = spilled(ROOT_KEY, tokens)
    end = spilled(whole.keys[3], tokens[4:])
    first, second = opened(tmp_path), opened(tmp_path)
    stored(first, whole)
    path = tmp_path / IDENTITY.digest / f"{whole.keys[-1].hex()}.safetensors"
    path.write_bytes(b"".join(encode(end, IDENTITY, 0).buffers))  # the same last page, so the same name
    assert read(first, whole.keys, whole.tokens) is None
    assert [first.find(key) for key in whole.keys] == [False] * 4 + [True] * 2
    assert_holds(read(first, end.keys, end.tokens), end.keys)
    assert first.usage.total_bytes == path.stat().st_size
    assert second.quarantined_files == 0


def test_flush_waits_for_a_write_that_nobody_wants_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = chain(1)
    has_begun, may_end = held_up(monkeypatch)
    tier = opened(tmp_path)
    assert tier.put(run)
    assert has_begun.wait(60)
    tier.quarantine(run.keys)
    assert not tier.flush(0.05)
    may_end.set()
    assert tier.flush(60)
    assert [path for path in tmp_path.rglob("*") if run.keys[-1].hex() in path.name] == []
    tier.close(60)


def refuses_to_write(tier: SsdTier, caplog: pytest.LogCaptureFixture, run: SpilledRun) -> None:
    """Writing is off with a reason, said once; nothing was raised and nothing is half there."""
    tier.put(run)
    assert tier.flush(60)
    assert not tier.put(run)
    assert not tier.find(run.keys[0])
    assert tier.reason
    warnings = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [f"pages are not saved to SSD: {tier.reason}"]
    tier.close(60)


def test_a_full_disk_switches_writing_off(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(200)]
    settings = SsdSettings(small_disk / "cache", PLENTY, 0)
    tier = SsdTier(settings, IDENTITY, disk_usage=lambda folder: Usage(PLENTY, 0, PLENTY))  # not so
    for run in runs:
        tier.put(run)
    assert tier.flush(60)
    assert "No space left" in tier.reason
    kept = [run for run in runs if tier.find(run.keys[0])]
    assert 10 < len(kept) < 200
    for again in (tier, opened(small_disk / "cache")):
        for run in kept:
            assert_holds(read(again, run.keys, run.tokens), run.keys)
        assert found(again, runs) == [run in kept for run in runs]
    refuses_to_write(tier, caplog, runs[-1])


def test_a_floor_keeps_the_same_disk_from_filling(small_disk: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(200)]
    tier = opened(small_disk, floor=30_000)
    for run in runs:
        tier.put(run)
        assert tier.flush(60)
        assert shutil.disk_usage(small_disk).free >= 30_000 - 8192  # blocks of the file and its folder
    assert tier.reason == ""
    assert found(tier, runs)[-10:] == [True] * 10


def test_a_read_only_disk_is_read(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = chain(3)
    stored(opened(small_disk), runs[0], runs[1])
    damaged = small_disk / IDENTITY.digest / f"{runs[1].keys[-1].hex()}.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    tier = opened(small_disk)
    assert_holds(read(tier, runs[0].keys, runs[0].tokens), runs[0].keys)
    refuses_to_write(tier, caplog, runs[2])
    assert read(tier, runs[1].keys, runs[1].tokens) is None
    assert found(tier, runs) == [True, False, False]
    assert tier.usage.total_bytes == sum(file.stat().st_size for file in page_files(small_disk))


@pytest.mark.parametrize("room", [0, 100, 700, 1400])
def test_a_write_that_fails_midway_leaves_nothing(
    tmp_path: Path, room: int, caplog: pytest.LogCaptureFixture
) -> None:
    before, run = chain(2, length=16)
    tier = opened(tmp_path)
    stored(tier, before)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (room, limits[1])
    )  # as if the disk were full after `room` bytes
    try:
        assert tier.put(run)
        assert tier.flush(60)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    refuses_to_write(tier, caplog, run)
    assert list(tmp_path.rglob(".*.tmp")) == []
    assert [path.stem for path in page_files(tmp_path)] == [before.keys[-1].hex()]
    assert_holds(read(tier, before.keys, before.tokens), before.keys)


@pytest.mark.parametrize("call", ["fsync", "rename", "utime"])
def test_a_disk_that_fails_late_leaves_nothing(
    tmp_path: Path, call: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "disk")

    run = chain(1)[0]
    tier = opened(tmp_path)
    monkeypatch.setattr(os, "replace" if call == "rename" else call, fail)
    if call == "utime":  # only the order of use would be lost
        stored(tier, run)
        return
    refuses_to_write(tier, caplog, run)
    assert page_files(tmp_path) == []


@pytest.mark.parametrize("what", ["a file", "below a file", "a dangling link"])
def test_a_folder_that_cannot_be(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "cache"
    if what == "a dangling link":
        folder.symlink_to(tmp_path / "nowhere" / "else")
    else:
        folder.write_text("not a folder")
    refuses_to_write(opened(folder / "below" if what == "below a file" else folder), caplog, chain(1)[0])


def test_a_folder_that_vanishes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, two = chain(2)
    tier = opened(tmp_path / "cache")
    stored(tier, one)
    shutil.rmtree(tmp_path / "cache")
    assert read(tier, one.keys, one.tokens) is None
    caplog.clear()  # which was said: the file is not there
    refuses_to_write(tier, caplog, two)
    assert not (tmp_path / "cache").exists()


def test_a_model_folder_that_was_cleared_is_made_again(tmp_path: Path) -> None:
    one, two = chain(2)
    tier = opened(tmp_path)
    stored(tier, one)
    shutil.rmtree(tmp_path / IDENTITY.digest)
    stored(tier, two)
    assert tier.reason == ""
    assert_holds(read(tier, two.keys, two.tokens), two.keys)


def test_an_error_of_our_own_switches_writing_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = opened(tmp_path)
    monkeypatch.setattr(SsdFolder, "write", lambda *args: 1 // 0)
    tier.put(chain(1)[0])
    assert tier.flush(60)
    tier.close(60)
    assert "ZeroDivisionError" in tier.reason
    assert "ZeroDivisionError" in caplog.text
