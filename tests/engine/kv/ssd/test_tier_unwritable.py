"""Disks and folders that cannot be written: nothing wrong is left, and what is there is read."""

from __future__ import annotations

import errno
import logging
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from engine.kv.page_data import SpilledRun
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, assert_holds, read
from tests.engine.kv.ssd.tiers import PLENTY, Usage, chain, found, opened, page_files, stored


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
