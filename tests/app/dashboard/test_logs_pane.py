"""The log's tab in the real window: what is in the file, by level and words, as it grows; and diagnostics."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from PySide6.QtCore import QAbstractItemModel
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.dashboard.logs_diagnostics import doctor_report
from app.dashboard.logs_pane import EMPTY, NOT_FOUND, LogsPane
from app.dashboard.logs_table import COLUMNS, LogsTable, full_words, time_words
from app.errors import AppError
from app.log import append
from app.log_reader import Entry
from app.paths import Paths
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop
from tests.app.test_screenshots import save

TRACE = "Traceback (most recent call last):\n  here\nOSError: no room"


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dashboard.logs_view_model.LOOK_MS", 100)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return Paths(tmp_path / "home").log


def write(log: Path, level: str, words: str, part: str = "engine.loading", trace: str = "") -> None:
    """A line of the log, as app.log writes it."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = {"time": at, "level": level, "part": part, "process": 7, "thread": "t", "words": words}
    log.parent.mkdir(exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**line, **({"trace": trace} if trace else {})}) + "\n")


def look(desktop: Desktop, qtbot: QtBot) -> LogsPane:
    """Open the tab as a click does, and wait until the log is read."""
    desktop.pane.dashboard_wanted.emit()
    qtbot.waitUntil(lambda: bool(desktop.dashboard.desk and desktop.dashboard.desk.page.is_whole))
    assert desktop.dashboard.desk
    desktop.dashboard.desk.page.tab_button("Logs").click()
    (pane,) = desktop.dashboard.desk.page.findChildren(LogsPane)
    qtbot.waitUntil(lambda: pane.logs.entries is not None or bool(pane.logs.problem))
    return pane


def rows(model: QAbstractItemModel) -> list[tuple[str, ...]]:
    """Level, part and words of every row."""
    return [
        tuple(str(model.data(model.index(row, column))) for column in range(1, len(COLUMNS)))
        for row in range(model.rowCount())
    ]


def test_an_empty_log_says_so(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    pane = look(open_desktop(), qtbot)
    assert pane.empty.text() == EMPTY
    assert not pane.table.isVisible()


def test_levels_and_words_choose_entries(open_desktop: OpenDesktop, qtbot: QtBot, log: Path) -> None:
    told = [
        ("info", "app.models", "opened tiny"),
        ("warning", "engine.kv", "the disk is nearly full"),
        ("error", "app.store", "the DISK is full"),
    ]
    for level, part, words in told:
        write(log, level, words, part)
    pane = look(open_desktop(), qtbot)
    assert rows(pane.model) == told
    assert pane.count.text() == "3 entries"
    pane.level.choose("warning")
    qtbot.waitUntil(lambda: rows(pane.model) == told[1:])
    pane.search.setText("nearly disk")
    qtbot.waitUntil(lambda: rows(pane.model) == told[1:2])
    assert pane.count.text() == "1 entry"
    pane.search.setText("nearly disk nobody")
    qtbot.waitUntil(lambda: pane.empty.text() == NOT_FOUND)
    pane.search.clear()
    pane.level.choose("debug")
    qtbot.waitUntil(lambda: rows(pane.model) == told)


def test_what_is_logged_comes_and_is_followed(open_desktop: OpenDesktop, qtbot: QtBot, log: Path) -> None:
    for number in range(80):
        write(log, "warning", f"number {number}")
    pane = look(open_desktop(), qtbot)
    bar = pane.table.verticalScrollBar()
    qtbot.waitUntil(lambda: 0 < bar.maximum() == bar.value())
    append(log, "the last straw", TRACE)
    qtbot.waitUntil(lambda: rows(pane.model)[-1] == ("error", "app", "the last straw"))
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
    pane.table.selectRow(80)
    assert pane.detail.toPlainText().endswith(f"the last straw\n{TRACE}")
    assert not pane.follow.isChecked()
    chosen = pane.table.currentIndex()
    qtbot.waitUntil(lambda: pane.table.viewport().rect().contains(pane.table.visualRect(chosen)))
    bar.triggerAction(bar.SliderAction.SliderToMinimum)
    append(log, "one more", "")
    qtbot.waitUntil(lambda: pane.model.rowCount() == 82)
    assert bar.value() == 0
    assert pane.detail.isVisible()
    bar.triggerAction(bar.SliderAction.SliderToMaximum)
    assert pane.follow.isChecked()
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    assert not pane.follow.isChecked()
    pane.follow.click()
    assert bar.value() == bar.maximum()


def test_a_log_that_cannot_be_read_is_said_until_it_can(
    open_desktop: OpenDesktop, qtbot: QtBot, log: Path
) -> None:
    log.mkdir(parents=True)
    pane = look(open_desktop(), qtbot)
    assert pane.empty.text() == f"The log at {log} cannot be read (Is a directory)"
    log.rmdir()
    append(log, "back again", "")
    qtbot.waitUntil(lambda: rows(pane.model) == [("error", "app", "back again")])
    assert not pane.empty.isVisible()


def test_the_file_is_left_alone_while_nobody_looks(
    open_desktop: OpenDesktop, qtbot: QtBot, log: Path
) -> None:
    desktop = open_desktop()
    pane = look(desktop, qtbot)
    desktop.window.show_chat()
    qtbot.waitUntil(lambda: not pane.logs._is_reading)  # as it was just before
    append(log, "unseen", "")
    qtbot.wait(350)
    assert pane.logs.entries == ()
    desktop.pane.dashboard_wanted.emit()
    qtbot.waitUntil(lambda: rows(pane.model) == [("error", "app", "unseen")])


def test_diagnostics_are_doctors_without_secrets(open_desktop: OpenDesktop, qtbot: QtBot, log: Path) -> None:
    append(log, "token: hf_abcDEF123456789 was refused", "")
    pane = look(open_desktop(), qtbot)
    QGuiApplication.clipboard().clear()
    pane.copy_button.click()
    assert not pane.copy_button.isEnabled()
    qtbot.waitUntil(lambda: pane.banner.text.startswith("Copied"), timeout=60_000)
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("## MLXR\n```\nSystem\n")
    assert "was refused" in copied
    assert "hf_abc" not in copied
    assert str(Path.home()) + "/" not in copied
    assert pane.copy_button.isEnabled()


def test_without_python_diagnostics_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "gone"))
    with pytest.raises(AppError, match="cannot be started"):
        doctor_report(tmp_path)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(AppError, match="ended with 1"):
        doctor_report(tmp_path)


def entry(number: int) -> Entry:
    return Entry("2026-03-18T12:20:05.000+00:00", "warning", "app", 1, "t", f"number {number}")


def test_rows_stay_where_they_are_when_others_come(open_desktop: OpenDesktop) -> None:
    table = LogsTable(open_desktop(model=None, wait=False).appearance)
    resets: list[bool] = []
    table.modelReset.connect(lambda: resets.append(True))
    table.show_entries([entry(n) for n in range(5)], 0.0)
    resets.clear()
    for begin, end in ((0, 7), (3, 9), (3, 9), (4, 6 + 4)):
        table.show_entries([entry(n) for n in range(begin, end)], 0.0)
        assert rows(table) == [("warning", "app", f"number {n}") for n in range(begin, end)]
    assert not resets
    table.show_entries([entry(40)], 0.0)
    assert resets
    assert rows(table) == [("warning", "app", "number 40")]


@pytest.mark.parametrize("wrong", ["", "yesterday", "0000-99-99"])
def test_a_time_that_is_none_stands_as_it_is(wrong: str) -> None:
    assert time_words(Entry(wrong, "error", "", 0, "", "torn"), time.time()) == (wrong or "–")
    assert full_words(Entry("", "error", "", 0, "", "torn"), 0.0) == "– · error\ntorn"


@pytest.mark.long
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_pictures(open_desktop: OpenDesktop, qtbot: QtBot, log: Path, mode: str) -> None:
    desktop = open_desktop()
    desktop.appearance.choose("light" if mode == "light" else "dark")
    pane = look(desktop, qtbot)
    save(desktop, f"{mode}-dashboard-logs-empty-1080")
    for number in range(30):
        write(log, ("warning", "info", "error")[number % 3], f"number {number}: the disk is nearly full")
    append(log, "The model's folder has no config.json; use a complete model folder", TRACE)
    qtbot.waitUntil(lambda: pane.model.rowCount() == 31)
    for size in ((1080, 720), (720, 520)):
        desktop.window.resize(*size)
        save(desktop, f"{mode}-dashboard-logs-{size[0]}")
    desktop.window.resize(1080, 720)
    pane.table.selectRow(30)
    pane.copy_button.click()
    qtbot.waitUntil(lambda: bool(pane.banner.text), timeout=60_000)
    for size in ((1080, 720), (720, 520)):
        desktop.window.resize(*size)
        save(desktop, f"{mode}-dashboard-logs-detail-{size[0]}")
