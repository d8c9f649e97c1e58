"""What keeps the SSD tier from writing is said in words, tried again by itself, and taken back."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.kv.page_data import ROOT_KEY, SpilledRun
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.problem import LONG_S, SsdProblem
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from engine.kv.stores import Room
from tests.engine.kv.spilled import IDENTITY, assert_holds, pages, read, spilled

PATIENCE = 60.0
KB = 1 << 10


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is tried again at once."""
    monkeypatch.setattr("engine.kv.ssd.problem.AGAIN_S", 0.0)


def run_of(number: int) -> SpilledRun:
    return spilled(ROOT_KEY, pages(1000 * number, 4))


def opened(folder: Path, floor: int = 0) -> SsdTier:
    return SsdTier(SsdSettings(folder, 1 << 30, floor), IDENTITY)


def stores(tier: SsdTier, run: SpilledRun) -> bool:
    """Whether `run` is in a file once nothing waits any more."""
    before, taken = tier.written_pages, tier.put(run)
    assert tier.flush(PATIENCE)
    assert (tier.find(run.keys[0]), tier.waiting_pages) == (tier.written_pages > before, 0)
    if tier.find(run.keys[0]):
        assert taken
        assert tier.written_pages == before + len(run.keys)
        assert_holds(read(tier, run.keys, run.tokens), run.keys)
    return tier.find(run.keys[0])


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Another process holds the folder's lock."""
    folder.mkdir(exist_ok=True)
    text = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); input()"
    command = [sys.executable, "-c", text, folder / "lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.stdin.write(b"\n")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("floor", [0, 60 * KB])
def test_a_disk_with_too_little_room_is_a_reason_until_there_is_more(small_disk: Path, floor: int) -> None:
    tier = opened(small_disk / "cache", floor)
    others = small_disk / "others"
    others.write_bytes(bytes(shutil.disk_usage(small_disk).free - floor))
    assert tier.reason == ""  # nothing was to be written yet
    assert not stores(tier, run_of(1))
    kept = " and 0.1 MB must stay free" if floor else ""
    free = "0.1" if floor else "0.0"
    assert tier.reason == f"the disk has {free} MB free{kept}; saving goes on when there is more"
    others.unlink()
    assert tier.reason == ""
    assert stores(tier, run_of(1))


def test_amounts_are_told_in_gigabytes(tmp_path: Path) -> None:
    floor = shutil.disk_usage(tmp_path).free + 2_500_000_000
    tier = opened(tmp_path, floor)
    assert not stores(tier, run_of(1))
    assert re.fullmatch(
        rf"the disk has [\d.]+ GB free and {floor / 1e9:.1f} GB must stay free; "
        "saving goes on when there is more",
        tier.reason,
    )


def test_no_room_for_what_is_older_than_all_that_is_stored_is_no_problem(small_disk: Path) -> None:
    tier = opened(small_disk, floor=64 * KB)
    long_ago, size = tier.tick(), run_of(0).data.nbytes
    for number in range(200):
        assert stores(tier, run_of(number))
    assert len(list(small_disk.rglob("*.safetensors"))) < 200
    assert tier.room(2 * size, tier.tick()) is Room.NOW
    assert tier.room(8 * KB, long_ago) is Room.NEVER
    assert tier.reason == ""


def test_a_folder_that_is_held_for_a_moment_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.02)
    folder = tmp_path / "cache"
    tier, run = opened(folder), run_of(1)
    with held(folder):
        assert tier.put(run)
        until(lambda: tier._writer._problem._held_since is not None)
        assert not tier.flush(0.1)
        assert (tier.reason, tier.find(run.keys[0])) == ("", True)
        assert (tier.waiting_pages, tier.written_pages) == (4, 0)
    assert tier.flush(PATIENCE)
    assert_holds(read(opened(folder), run.keys, run.tokens), run.keys)
    assert (tier.waiting_pages, tier.written_pages) == (0, 4)
    assert (tier.reason, warnings(caplog)) == ("", [])


def test_one_that_is_held_for_long_is_a_reason_until_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.02)
    monkeypatch.setattr("engine.kv.ssd.problem.LONG_S", 0.1)
    folder = tmp_path / "cache"
    tier, run = opened(folder), run_of(1)
    with held(folder):
        for _ in range(3):
            assert not stores(tier, run)
            assert tier.reason == (
                f"another program has held {folder} for long; saving goes on when it lets go"
            )
    assert stores(tier, run)
    assert tier.reason == ""
    assert warnings(caplog) == [
        f"pages are not saved to SSD: another program has held {folder} for long; "
        "saving goes on when it lets go"
    ]


def test_moments_far_apart_are_no_long_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.02)
    monkeypatch.setattr("engine.kv.ssd.problem.time", SimpleNamespace(monotonic=lambda: now))
    met, was_held = list[int](), SsdProblem.was_held

    def note(problem: SsdProblem) -> None:
        was_held(problem)
        met.append(number)

    monkeypatch.setattr(SsdProblem, "was_held", note)
    tier = opened(tmp_path)
    for number in range(2):
        with held(tmp_path):
            assert tier.put(run_of(number))
            until(lambda of=number: of in met)
        assert tier.flush(PATIENCE)
        assert (tier.reason, tier.find(run_of(number).keys[0])) == ("", True)
        now += 2 * LONG_S
    assert warnings(caplog) == []


def test_a_read_only_disk_is_written_once_it_can_be(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tier = opened(small_disk)
    assert stores(tier, run_of(1))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for _ in range(3):
        assert not stores(tier, run_of(2))
        assert tier.reason == (
            f"{small_disk} cannot be written (Read-only file system); "
            "make its disk writable, and saving goes on"
        )
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert stores(tier, run_of(2))
    assert tier.reason == ""
    assert warnings(caplog) == [
        f"pages are not saved to SSD: {small_disk} cannot be written (Read-only file system); "
        "make its disk writable, and saving goes on"
    ]


def test_a_disk_that_was_read_only_when_it_was_opened_too(small_disk: Path) -> None:
    assert stores(opened(small_disk), run_of(1))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    tier = opened(small_disk)
    assert "Read-only" in tier.reason
    assert not stores(tier, run_of(2))
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert stores(tier, run_of(2))
    assert (tier.reason, tier.find(run_of(1).keys[0])) == ("", True)


def test_a_file_in_the_folder_s_place_is_one_until_it_is_moved(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.write_text("not a folder")
    tier = opened(folder)
    assert not stores(tier, run_of(1))
    assert tier.reason == f"{folder} cannot be written (File exists); move it away, and saving goes on"
    folder.unlink()
    assert stores(tier, run_of(1))
    assert tier.reason == ""


@pytest.mark.parametrize("name", ["lock", "ledger.json", "a page file", "its temporary name"])
def test_a_folder_with_the_name_of_a_file_is_named_until_it_is_moved(tmp_path: Path, name: str) -> None:
    run, home = run_of(1), tmp_path / IDENTITY.digest
    of_page = home / f"{run.keys[-1].hex()}.safetensors"
    names = {"a page file": of_page, "its temporary name": of_page.with_name(f".{of_page.stem}.tmp")}
    in_the_way = names.get(name, tmp_path / name)
    (in_the_way / "things").mkdir(parents=True)
    tier = opened(tmp_path)
    assert not stores(tier, run)
    assert tier.reason.startswith(f"{in_the_way} cannot be written (")
    assert tier.reason.endswith("; move it away, and saving goes on")
    in_the_way.rename(tmp_path / "elsewhere")
    assert stores(tier, run)
    assert (tier.reason, tier.find(run.keys[0])) == ("", True)
    assert (tmp_path / "elsewhere" / "things").is_dir()


def test_a_folder_that_was_taken_away_is_written_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "disk" / "cache"
    tier = opened(folder)
    assert stores(tier, run_of(1))
    (tmp_path / "disk").rename(tmp_path / "elsewhere")
    for _ in range(2):
        assert not stores(tier, run_of(2))
        assert tier.reason.endswith("(No such file or directory); it is made again when a model is loaded")
        assert not folder.exists()
    (tmp_path / "elsewhere").rename(tmp_path / "disk")
    assert stores(tier, run_of(2))
    assert (tier.reason, tier.find(run_of(1).keys[0])) == ("", True)


@pytest.mark.parametrize(
    ("number", "way_out"),
    [
        (errno.ENOSPC, "make room on its disk, and saving goes on"),
        (errno.EDQUOT, "make room on its disk, and saving goes on"),
        (errno.EACCES, "let your account write there, and saving goes on"),
        (errno.EIO, "saving goes on when its disk takes a file again"),
    ],
)
def test_what_helps_is_said_for_each_error(
    number: int, way_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: SsdFolder, path: Path, buffers: Sequence[memoryview]) -> None:
        raise OSError(number, os.strerror(number), str(path))

    tier = opened(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(SsdFolder, "write", broken)
        assert not stores(tier, run_of(1))
    assert tier.reason == f"{tmp_path} cannot be written ({os.strerror(number)}); {way_out}"
    assert stores(tier, run_of(1))
    assert tier.reason == ""


def test_nothing_is_tried_before_it_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.write_text("not a folder")
    with monkeypatch.context() as later:
        later.setattr("engine.kv.ssd.problem.AGAIN_S", 3600.0)
        tier = opened(folder)
    folder.unlink()
    assert tier.room(1, tier.tick()) is Room.NEVER
    assert not tier.put(run_of(1))
    assert (tier.waiting_pages, tier.written_pages) == (0, 0)
    assert tier.reason


def test_one_run_alone_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.write_text("not a folder")
    tier = opened(folder)
    folder.unlink()
    write, may_write = SsdFolder.write, threading.Event()

    def slow(self: SsdFolder, path: Path, buffers: Sequence[memoryview]) -> None:
        assert may_write.wait(PATIENCE)
        write(self, path, buffers)

    monkeypatch.setattr(SsdFolder, "write", slow)
    assert tier.put(run_of(1))
    assert tier.room(1, tier.tick()) is Room.LATER
    assert not tier.put(run_of(2))
    may_write.set()
    assert tier.flush(PATIENCE)
    assert tier.room(1, tier.tick()) is Room.NOW
    assert stores(tier, run_of(2))
    assert tier.reason == ""
