"""A cache that nobody keeps any more: all of it goes, and nothing else."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd import folder as ssd_folder
from engine.kv.ssd.clearing import clear_cache
from engine.kv.ssd.leases import ChatLeases
from engine.kv.ssd.notes import Notes, digest_of
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, OTHER, pages, spilled


def fill(folder: Path, *identities: CacheIdentity) -> None:
    """A run of pages of each model."""
    for identity in identities:
        tier = SsdTier(SsdSettings(folder, 1 << 30, 0), identity)
        assert tier.put(spilled(ROOT_KEY, pages(0, 4)))
        tier.close(60)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_linked", [False, True])
def test_pages_of_all_models_go_and_what_is_not_ours_stays(tmp_path: Path, is_linked: bool) -> None:
    folder = tmp_path / "kv"
    if is_linked:
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    fill(folder, IDENTITY, OTHER)
    Notes(folder).write([digest_of("gone")])
    leftover = folder / IDENTITY.digest / f".{'0' * 32}.tmp"
    leftover.write_bytes(b"half")
    (folder / OTHER.digest / "mine.txt").write_text("mine")
    (folder / "holiday.safetensors").write_text("mine")
    assert clear_cache(folder)
    assert files(folder) == {"lock", "mine.txt", "holiday.safetensors"}
    assert not (folder / IDENTITY.digest).exists()
    assert folder.is_symlink() == is_linked
    fill(folder, IDENTITY)  # as if nothing had been
    assert len([*folder.glob("*/*.safetensors")]) == 1


def test_leases_of_who_lives_stay_and_those_of_the_dead_go(tmp_path: Path) -> None:
    fill(tmp_path, IDENTITY)
    living = ChatLeases(tmp_path)
    living.take("alive")
    (tmp_path / f"{digest_of('dead')}.lease").touch()
    assert clear_cache(tmp_path)
    assert files(tmp_path) == {"lock", f"{digest_of('alive')}.lease"}
    living.close()


def test_where_there_is_no_folder_there_is_nothing_to_clear(tmp_path: Path) -> None:
    assert clear_cache(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_what_another_process_writes_to_is_left_to_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, IDENTITY)
    before = files(tmp_path)
    monkeypatch.setattr(ssd_folder, "_LOCK_S", 0.05)
    held = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    with caplog.at_level(logging.WARNING):
        assert not clear_cache(tmp_path)
    assert files(tmp_path) == before
    assert "another process is writing there" in caplog.text
    os.close(held)
    assert clear_cache(tmp_path)


def test_a_disk_that_cannot_be_written_is_said(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(small_disk, IDENTITY)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with caplog.at_level(logging.WARNING):
        assert not clear_cache(small_disk)
    assert f"pages of chats stay in {small_disk}: Read-only file system" in caplog.text
