"""The window in place of MLXR's: seen, and met by a real `mlxr` that cannot start."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.bad_start import (
    BadStart,
    Machine,
    contents_problem,
    machine_problem,
    newer_data_problem,
    space_problem,
    unloadable,
)
from app.bad_start_window import AGAIN, GO_ON, QUIT, BadStartWindow
from app.paths import Paths
from app.store.database import open_database
from app.store.schema import MIGRATIONS
from tests.app.test_bad_start import a_newer, contents, frozen
from tests.app.test_screenshots import FOLDER

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 8_000_000_000


def problems(folder: Path) -> dict[str, BadStart | None]:
    """One of each kind, as the checks make them."""
    paths = Paths(folder / "home")
    a_newer(paths.chats, 99)
    damaged = frozen(folder / "app")
    (damaged / "metal" / "rms_norm.metal").unlink()
    return {
        "macos": machine_problem(Machine("darwin", "13.6.1", "arm64", False, MEMORY)),
        "intel": machine_problem(Machine("darwin", "15.1", "x86_64", False, MEMORY)),
        "rosetta": machine_problem(Machine("darwin", "15.1", "x86_64", True, MEMORY)),
        "memory": machine_problem(Machine("linux", "", "x86_64", False, 256_000_000)),
        "space": space_problem(Path("/Users/sam/Library/Application Support/MLXR"), 3_200_000),
        "damaged": contents_problem(damaged),
        "newer": newer_data_problem(paths),
        "unloadable": unloadable(ImportError("libmlx.dylib: no such file")),
    }


def button(window: BadStartWindow, words: str) -> QPushButton:
    """The button with these words."""
    return next(one for one in window.findChildren(QPushButton) if one.text() == words)


@pytest.mark.parametrize("look", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_each_is_seen_whole(application: QApplication, qtbot: QtBot, tmp_path: Path, look: str) -> None:
    appearance = Appearance(application)
    appearance.choose("dark" if look == "dark" else "light")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, problem in problems(tmp_path).items():
        assert problem is not None, name
        window = BadStartWindow(problem)
        qtbot.addWidget(window)
        window.show()
        for label in window.findChildren(QLabel):
            assert label.heightForWidth(label.width()) <= label.height(), name
        assert window.grab().save(str(FOLDER / f"{look}-bad-start-{name}.png"))
    appearance.choose("light")


def test_closing_it_is_to_quit(application: QApplication, qtbot: QtBot) -> None:
    window = BadStartWindow(BadStart("Something", "Do this."))
    qtbot.addWidget(window)
    assert [one.text() for one in window.findChildren(QPushButton)] == [QUIT]
    window.show()
    window.close()
    assert window.answer == "quit"


@pytest.mark.parametrize(("words", "answer"), [(QUIT, "quit"), (AGAIN, "again"), (GO_ON, "go on")])
def test_where_it_can_go_on_all_three_are_offered(
    application: QApplication, qtbot: QtBot, words: str, answer: str
) -> None:
    window = BadStartWindow(BadStart("Something", "Do this.", can_go_on=True))
    qtbot.addWidget(window)
    button(window, words).click()
    assert window.answer == answer


CHILD = """
import sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLabel, QPushButton
from app import bad_start
from app.application import make_application
from app.command_line import main

frozen_in, answers = sys.argv[1], sys.argv[2].split(",")
if frozen_in:
    sys.frozen, sys._MEIPASS = True, frozen_in
if sys.argv[3] != "real":
    space = list(map(int, sys.argv[3].split(",")))
    bad_start.free_space = lambda home: space.pop(0) if space else 1 << 40

def look():
    windows = [one for one in make_application().topLevelWidgets() if one.isVisible()]
    for window in windows:
        buttons = {one.text(): one for one in window.findChildren(QPushButton)}
        if "Quit" in buttons:
            engine = [name for name in sys.modules if name.partition(".")[0] in ("mlx", "engine")]
            words = [one.text() for one in window.findChildren(QLabel) if one.text()]
            print("asked", words[0], len(engine), flush=True)
            buttons[answers.pop(0)].click()
        elif hasattr(window, "pane"):
            print("opened", flush=True)
            window.close()
            timer.stop()

make_application()
timer = QTimer(interval=20)
timer.timeout.connect(look)
timer.start()
sys.exit(main(sys.argv[4:]))
"""


def start(
    home: Path, answers: str, space: str = "", *arguments: str, frozen_in: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A real `mlxr` whose person answers so; one that counts as frozen has its files in `frozen_in`."""
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(frozen_in or ""), answers, space or str(1 << 40), *arguments],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "MLXR_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What it said for people."""
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


def test_newer_data_keeps_the_window_from_opening_and_is_left_alone(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    a_newer(paths.chats, 99)
    paths.settings.write_text('{"theme": "dark", "of_the_future": 1}')
    before = contents(tmp_path)
    done = start(tmp_path, "Quit")
    assert done.returncode == 1
    assert done.stdout == "asked Your data is of a newer MLXR 0\n"
    (line,) = errors(done)
    assert line.startswith("error: your data is of a newer MLXR: ")
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("arguments", [(), pytest.param(("chat", "hello"), marks=pytest.mark.long)])
def test_a_damaged_app_says_so_in_a_window_or_in_a_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    damaged = frozen(tmp_path / "app")
    (damaged / "metal" / "rms_norm.metal").unlink()
    done = start(tmp_path / "home", "Quit", "", *arguments, frozen_in=damaged)
    assert done.returncode == 1
    assert done.stdout == ("" if arguments else "asked MLXR is damaged 0\n")
    (line,) = errors(done)
    assert line.startswith("error: MLXR is damaged: metal/rms_norm.metal is missing or not whole. ")
    assert not (tmp_path / "home").exists()


def test_a_full_disk_can_be_looked_at_again_and_accepted(tmp_path: Path) -> None:
    done = start(tmp_path, "Try again,Start anyway", "1000,2000")
    assert done.stdout.splitlines() == ["asked The disk is full 0", "asked The disk is full 0", "opened"]
    assert (done.returncode, errors(done)) == (0, [])


@pytest.mark.long  # the databases alone: tests/app/store/test_older_data.py
def test_older_data_is_brought_up_and_opens(tmp_path: Path) -> None:
    with sqlite3.connect(Paths(tmp_path).chats, isolation_level=None) as db:
        for step in MIGRATIONS[:1]:
            step(db)
        db.execute("PRAGMA user_version = 1")
        db.execute("INSERT INTO chats(id, title, created, updated) VALUES ('c', ?, 1, 2)", ("Of last year",))
    db.close()
    done = start(tmp_path, "")
    assert (done.stdout, done.returncode, errors(done)) == ("opened\n", 0, [])
    opened = open_database(Paths(tmp_path).chats)
    rows = opened.connection.execute("SELECT title FROM chats").fetchall()
    opened.connection.close()
    assert (opened.problem, rows) == ("", [("Of last year",)])


def test_a_disk_without_a_byte_left_keeps_nobody_from_the_window(full_disk: Path) -> None:
    done = start(full_disk, GO_ON, "real")
    assert done.stdout.splitlines() == ["asked The disk is full 0", "opened"], done.stderr
    assert done.returncode == 0
