"""A run counts the crashes before it, keeps what they left until there is a report, and then lets it go."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from app.crash.check import check_crashes
from app.crash.inquest import MARKER
from app.crash.marker import read_marker
from app.crash.safe_mode import CRASHES, why_safe
from app.crash.session import LEFT, MOST_LEFT, RUNNING, Session
from tests.app.crash.conftest import Run


def said(folder: Path) -> dict[str, str]:
    """What the doctor says, by what it is about."""
    return {finding.what: finding.is_ for finding in check_crashes(folder)}


def test_two_early_crashes_in_a_row_make_the_next_start_careful(folder: Path) -> None:
    assert said(folder) == {}
    Run(folder, "abort").end()
    assert "SIGABRT" in said(folder)["last run"]
    assert "safe mode" not in said(folder)
    second = Run(folder, "stray")
    second.end()
    assert second.inquest().early_crashes == CRASHES
    assert "at the next start" in said(folder)["safe mode"]
    third = Session(folder)
    assert third.early_crashes == CRASHES
    assert third.left is not None
    assert "SIGSEGV" in third.left[0].what
    third.be_safe(why_safe(False, False, third.early_crashes))
    assert "2 times in a row" in third.safe
    assert said(folder)["safe mode"].startswith("on, since MLXR ended unexpectedly 2 times")
    third.end()
    assert Session(folder).early_crashes == 0  # it ended well


def test_a_good_end_between_two_crashes_starts_the_count_anew(folder: Path) -> None:
    for how in ("abort", "quit", "abort"):
        run = Run(folder, how)
        run.end()
    assert run.inquest().early_crashes == 1


@pytest.mark.long
def test_a_power_cut_between_two_crashes_does_not(folder: Path) -> None:
    Run(folder, "abort").end()
    run = Run(folder, "wait")
    run.send(signal.SIGKILL)
    run.end()
    assert run.inquest(boot="another").early_crashes == 1


@pytest.mark.parametrize(
    ("asked", "key", "crashes", "says"),
    [
        (True, True, 5, "--safe"),
        (False, True, 5, "a key"),
        (False, False, CRASHES, "in a row"),
        (False, False, CRASHES - 1, ""),
    ],
)
def test_why_safe_mode_is_on(asked: bool, key: bool, crashes: int, says: str) -> None:
    why = why_safe(asked, key, crashes)
    assert says in why
    assert bool(why) == bool(says)


def test_what_is_left_is_bounded(folder: Path) -> None:
    for _ in range(MOST_LEFT + 3):
        Session(folder)  # each is gone without a word, as far as the next one sees
    assert len(list(folder.glob(f"{LEFT}*"))) == MOST_LEFT


def test_a_folder_that_cannot_be_written_keeps_nothing_and_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    session = Session(tmp_path / "file" / "crashes")
    session.note({"asked": "x"})
    session.calm()
    session.close()
    assert not session.is_kept
    assert (tmp_path / "file").read_text() == ""


def test_a_run_is_marked_with_its_process_and_versions(folder: Path) -> None:
    session = Session(folder)
    marker = read_marker(folder / RUNNING / MARKER)
    assert marker is not None
    assert marker.pid == os.getpid()
    assert {"python", "mlx", "PySide6-Essentials"} <= set(marker.parts)
    assert folder.stat().st_mode & 0o077 == 0
    assert session.is_kept
