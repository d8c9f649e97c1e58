"""Chats that end with their process: forgotten by the next start where it could not, never while it lives."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY, SpilledRun
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.leases import ChatLeases
from engine.kv.ssd.notes import digest_of
from engine.kv.ssd.owners import forget_in_folder
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, OTHER, owners_in, pages, spilled

_DYING = """
import os, signal, sys
from pathlib import Path
from engine.kv.ssd.leases import ChatLeases
leases = ChatLeases(Path(sys.argv[1]))
leases.take("run")
print("taken", flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def opened(folder: Path) -> SsdTier:
    return SsdTier(SsdSettings(folder, 1 << 30, 0), IDENTITY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with pages of the chat "run", of "a", and of both."""
    tier = opened(tmp_path)
    for run in (run_of("run"), run_of("a", first=100), run_of("run", "a", first=200)):
        assert tier.put(run)
    assert tier.flush(10)
    tier.close(10)
    return tmp_path


def run_of(*chats: str, first: int = 0) -> SpilledRun:
    return spilled(ROOT_KEY, pages(first, 4), chats)


def written_down(folder: Path) -> list[str]:
    """Suffixes of what is written down of chats."""
    return sorted(path.suffix for path in folder.iterdir() if path.suffix in (".forgotten", ".lease", ".tmp"))


def test_a_chat_whose_process_was_killed_is_forgotten_by_the_next_start(folder: Path) -> None:
    command = [sys.executable, "-c", _DYING, str(folder)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "taken\n"
    for _ in range(2):
        assert opened(folder).find(run_of("run").keys[0])  # it lives
    assert owners_in(folder) == {"run", "a"}
    child.communicate("")
    tier = opened(folder)
    assert not tier.find(run_of("run").keys[0])
    assert owners_in(folder) == {"a"}
    assert written_down(folder) == []


def test_where_another_process_writes_a_dead_one_s_chat_is_not_found_either(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.0)
    leases = ChatLeases(folder)
    leases.take("run")
    leases.close()
    with SsdFolder(folder, "", shutil.disk_usage).locked():
        tier = opened(folder)
        assert not tier.find(run_of("run").keys[0])
        assert set(tier.chat_bytes()) == {"a"}
    assert written_down(folder) == [".forgotten"]
    tier.close(10)
    assert owners_in(folder) == {"a"}
    assert written_down(folder) == []


@pytest.mark.parametrize("is_open", [False, True])
def test_the_lease_of_a_chat_that_was_forgotten_goes_with_it(folder: Path, is_open: bool) -> None:
    leases = ChatLeases(folder)
    for chat in ("run", "next"):
        leases.take(chat)
    if is_open:
        tier = opened(folder)
        tier.forget_chat("run")
        assert written_down(folder) == [".forgotten", ".lease", ".lease"]
        tier.remove_forgotten()
    else:
        assert forget_in_folder(folder, {digest_of("run")})
    assert written_down(folder) == [".lease"]
    leases.close()
    opened(folder)
    assert written_down(folder) == []


def test_nobody_sees_a_lease_that_is_not_locked_yet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes start between all that its process does for it."""
    flock, rename = fcntl.flock, os.rename
    starts = list[str]()

    def locking(file: int, how: int) -> None:
        if how == fcntl.LOCK_EX:
            monkeypatch.setattr(fcntl, "flock", flock)
            starts.append("before it is locked")
            opened(folder)
        flock(file, how)

    def renaming(old: Path, new: Path) -> None:
        if str(new).endswith(".lease"):
            starts.append("before it is named")
            opened(folder)
        rename(old, new)

    monkeypatch.setattr(fcntl, "flock", locking)
    monkeypatch.setattr(os, "rename", renaming)
    leases = ChatLeases(folder)
    leases.take("run")
    assert starts == ["before it is locked", "before it is named", "before it is named"]
    assert opened(folder).find(run_of("run").keys[0])
    assert owners_in(folder) == {"run", "a"}
    assert written_down(folder) == [".lease"]
    leases.close()


def test_what_a_process_left_that_died_before_it_had_a_lease_goes(folder: Path) -> None:
    (folder / f".{'ab' * 16}.lease.tmp").touch()
    opened(folder)
    assert written_down(folder) == []
    assert owners_in(folder) == {"run", "a"}


def test_where_nothing_can_be_written_down_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kv").write_bytes(b"no folder")
    leases = ChatLeases(tmp_path / "kv")
    leases.take("run")
    leases.close()
    (record,) = caplog.records
    assert f"pages of its chat stay in {tmp_path / 'kv'}" in record.message


def test_without_a_cache_there_is_nothing_to_lease() -> None:
    leases = ChatLeases(None)
    leases.take("run")
    leases.close()


def test_leases_are_closed_to_others_and_the_folder_counts_as_ours(folder: Path) -> None:
    folder.chmod(0o755)
    leases = ChatLeases(folder)
    leases.take("run")
    (lease,) = folder.glob("*.lease")
    assert lease.stat().st_mode & 0o077 == 0
    SsdTier(SsdSettings(folder, 1 << 30, 0), OTHER)
    assert folder.stat().st_mode & 0o077 == 0
    leases.close()
