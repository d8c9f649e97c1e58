"""Files that are damaged, gone, or not ours: none is trusted, and what is nobody's is removed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.ssd.folder import SsdFolder
from tests.engine.kv.spilled import IDENTITY, OTHER, assert_holds, pages, read, spilled
from tests.engine.kv.ssd.tiers import chain, file_size, found, opened, page_files, refused, stored


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


@pytest.mark.parametrize("left", [b"?" * 100, b""])
def test_a_damaged_file_is_written_anew_with_more_pages_before_those_it_had(
    tmp_path: Path, left: bytes
) -> None:
    whole = chain(1)[0]
    end = spilled(whole.keys[1], whole.tokens[2:])
    tier = opened(tmp_path)
    stored(tier, end)
    (path,) = page_files(tmp_path)
    path.write_bytes(left)
    stored(tier, whole)
    assert (tier.reason, page_files(tmp_path)) == ("", [path])
    assert_holds(read(tier, whole.keys, whole.tokens), whole.keys)
    assert tier.usage.total_bytes == path.stat().st_size


def test_a_file_that_cannot_be_read_at_the_start_takes_space_and_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = chain(1)[0]
    stored(opened(tmp_path), run)
    with monkeypatch.context() as patch:
        patch.setattr("engine.kv.ssd.upkeep.read_header", refused)
        tier = opened(tmp_path)
    assert not tier.find(run.keys[0])
    assert (tier.usage.total_bytes, tier.quarantined_files, tier.reason) == (file_size(run), 0, "")
    assert found(opened(tmp_path), [run]) == [True]


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
