"""What keeps MLXR from starting is seen, each in one line that says what to do."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app import bad_start
from app.bad_start import (
    CONTENTS,
    SMALLEST_MEMORY,
    SMALLEST_SPACE,
    BadStart,
    Machine,
    contents_problem,
    free_space,
    machine_problem,
    newer_data_problem,
    space_problem,
    start_problem,
    this_machine,
)
from app.cli import machine_checks
from app.paths import Paths
from app.store.database import open_database
from app.store.schema import MIGRATIONS
from app.store.version_on_disk import version_on_disk

GOOD = 8_000_000_000


def said(problem: BadStart | None) -> str:
    """Its line; what is true of every one is checked."""
    assert problem is not None
    line = str(problem)
    assert "\n" not in line
    assert len(line) < 500
    assert not problem.title.endswith(".")
    assert problem.words.endswith(".")
    return line


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (
            Machine("darwin", "13.6.1", "arm64", False, GOOD),
            "this Mac runs macOS 13.6.1: MLXR needs macOS 14",
        ),
        (Machine("darwin", "11", "arm64", False, GOOD), "this Mac runs macOS 11: "),
        (Machine("darwin", "15.1", "x86_64", False, GOOD), "this Mac has an Intel processor: "),
        (Machine("darwin", "15.1", "x86_64", True, GOOD), "MLXR is run under Rosetta: "),
        (Machine("linux", "", "x86_64", False, SMALLEST_MEMORY - 1), "this machine has 400 MB of memory: "),
        (Machine("darwin", "14.0", "arm64", False, 1000), "this machine has 1.0 kB of memory: "),
    ],
)
def test_a_machine_that_cannot_run_it_is_named(machine: Machine, words: str) -> None:
    assert said(machine_problem(machine)).startswith(words)


@pytest.mark.parametrize(
    "machine",
    [
        Machine("darwin", "14.0", "arm64", False, GOOD),
        Machine("darwin", "26.1", "arm64", False, GOOD),
        Machine("darwin", "10.16", "arm64", False, GOOD),
        Machine("darwin", "", "arm64", False, GOOD),
        Machine("linux", "", "x86_64", False, SMALLEST_MEMORY),
        Machine("linux", "", "aarch64", False, GOOD),
    ],
)
def test_a_machine_that_can_is_not(machine: Machine) -> None:
    assert machine_problem(machine) is None


def test_this_machine_is_read_and_can() -> None:
    machine = this_machine()
    assert machine.memory > SMALLEST_MEMORY
    assert machine_problem(machine) is None


def test_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = this_machine().memory
    monkeypatch.setattr(bad_start, "_CGROUP", tmp_path / "memory.max")
    (tmp_path / "memory.max").write_text("1000000\n")
    assert this_machine().memory == 1_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert this_machine().memory >= whole


def test_a_full_disk_is_named_and_may_be_accepted(tmp_path: Path) -> None:
    problem = space_problem(tmp_path, 3_000_000)
    assert said(problem).startswith(
        f"the disk is full: 3.0 MB are left where MLXR keeps its data, {tmp_path}."
    )
    assert problem is not None
    assert problem.can_go_on
    assert space_problem(tmp_path, SMALLEST_SPACE) is None


def test_space_is_that_of_the_nearest_folder_there_is(tmp_path: Path) -> None:
    here = shutil.disk_usage(tmp_path).free
    assert abs(free_space(tmp_path / "not" / "yet") - here) < 1 << 30
    (tmp_path / "file").write_text("")
    assert free_space(tmp_path / "file" / "home") == SMALLEST_SPACE  # who cannot say it holds up nobody


def a_newer(path: Path, version: int, in_log: bool = False) -> None:
    """A database as a newer MLXR leaves it, or with `in_log` as it leaves it when it is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name("made.sqlite3")
    with closing(sqlite3.connect(aside, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE future(thing)")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute(f"PRAGMA user_version = {version}")
        if in_log:
            for suffix in ("", "-wal"):
                shutil.copy(aside.with_name(aside.name + suffix), path.with_name(path.name + suffix))
    if not in_log:
        shutil.copy(aside, path)
    for left in path.parent.glob("made.sqlite3*"):
        left.unlink()


def contents(home: Path) -> dict[str, bytes]:
    """Every byte that is kept there; SQLite's shared memory is no data."""
    return {path.name: path.read_bytes() for path in home.iterdir() if not path.name.endswith("-shm")}


@pytest.mark.parametrize("in_log", [False, True])
@pytest.mark.parametrize("name", ["chats", "library", "history", "downloads"])
def test_newer_data_is_named_and_left_byte_for_byte(tmp_path: Path, name: str, in_log: bool) -> None:
    paths = Paths(tmp_path / "mit ä Raum" / "home#1")
    path: Path = getattr(paths, name)
    a_newer(path, 99, in_log)
    (paths.home / "settings.json").write_text('{"theme": "dark", "of_the_future": [1, 2]}')
    before = contents(paths.home)
    assert version_on_disk(path) == 99
    assert str(path) in said(newer_data_problem(paths))
    assert said(start_problem(paths)).startswith("your data is of a newer MLXR: ")
    assert contents(paths.home) == before


def test_older_data_no_data_and_broken_data_are_no_reason(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "home")
    assert newer_data_problem(paths) is None
    a_newer(paths.chats, 1)
    paths.library.write_bytes(b"not a database" * 20)
    paths.history.write_bytes(b"")
    paths.downloads.mkdir()
    assert newer_data_problem(paths) is None
    assert start_problem(paths) is None


def test_what_this_mlxr_writes_it_takes_again(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    with closing(open_database(paths.chats).connection):
        assert version_on_disk(paths.chats) == len(MIGRATIONS)  # from the log: it is open
        assert newer_data_problem(paths) is None
    assert version_on_disk(paths.chats) == len(MIGRATIONS)
    assert newer_data_problem(paths) is None


def frozen(folder: Path) -> Path:
    """A frozen app's files and their list."""
    for name in ("resources/guide/model/config.json", "metal/rms_norm.metal"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    listed = {"resources/guide/model/config.json": 33, "metal/rms_norm.metal": 20}
    (folder / CONTENTS).write_text(json.dumps(listed))
    return folder


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5])


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [Path.unlink, cut, make_a_folder])
@pytest.mark.parametrize("name", ["metal/rms_norm.metal", CONTENTS])
def test_a_damaged_app_names_what_is_missing(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = frozen(tmp_path)
    assert contents_problem(folder) is None
    damage(folder / name)
    assert said(contents_problem(folder)).startswith(f"MLXR is damaged: {name} is missing or not whole.")


def test_of_many_missing_files_one_is_named(tmp_path: Path) -> None:
    folder = frozen(tmp_path)
    shutil.rmtree(folder / "metal")
    shutil.rmtree(folder / "resources")
    assert "config.json and 1 more is missing" in said(contents_problem(folder))


def test_from_its_source_there_is_no_list_to_hold_it_to() -> None:
    assert bad_start.frozen_folder() is None
    assert contents_problem(None) is None


def test_the_doctor_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, folder = Paths(tmp_path / "home"), frozen(tmp_path / "app")
    monkeypatch.setattr(machine_checks, "frozen_folder", lambda: folder)
    found = {finding.what: finding for finding in machine_checks.check_files(paths)}
    assert (found["app"].state, "data" in found) == ("ok", False)
    (folder / "metal" / "rms_norm.metal").unlink()
    a_newer(paths.library, 99)
    found = {finding.what: finding for finding in machine_checks.check_files(paths)}
    assert (found["app"].state, found["data"].state) == ("broken", "broken")
    assert "rms_norm.metal" in (found["app"].advice or "")
    assert str(paths.library) in (found["data"].advice or "")
