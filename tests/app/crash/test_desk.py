"""The window tells of a crash and shows the whole report; a part that fails is told at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices, QGuiApplication
from pytestqt.qtbot import QtBot

from app.crash import crash_words as words
from app.crash.desk import MOST_FAILURES, CrashDesk
from app.crash.hooks import ENGINE_THREAD
from app.crash.report_dialog import ReportDialog
from app.crash.safe_mode import why_safe
from app.crash.session import LEFT, Session
from app.paths import Paths
from app.wiring import CLOSE_SECONDS, Desktop
from tests.app.conftest import OpenDesktop
from tests.app.crash.conftest import Run
from tests.fakes.busy_thread import keep_busy

TYPED = "my diagnosis is private"


class Stage:
    """A window with what watches over it."""

    def __init__(self, desktop: Desktop, home: Path, why: str = "") -> None:
        self.desktop, self.paths = desktop, Paths(home)
        self.session = Session(self.paths.crashes)
        self.session.be_safe(why)
        self.desk = CrashDesk(
            self.session,
            desktop.appearance,
            desktop.pane,
            self.paths,
            desktop.queue.post,
            lambda: ["chip: M9"],
        )

    def reports(self) -> list[Path]:
        return sorted(self.paths.crashes.glob("report-*"))

    def dialog(self) -> ReportDialog:
        dialog = self.desktop.window.findChild(ReportDialog)
        assert dialog
        return dialog


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def stage(open_desktop: OpenDesktop, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A window that failures may happen behind."""
    monkeypatch.setattr(sys, "__excepthook__", lambda *_: None)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    stage = Stage(open_desktop(), home)
    yield stage
    stage.desk.close(CLOSE_SECONDS)


def fail(of: str = "") -> None:
    raise ValueError(f"{TYPED} {of}")


def test_after_a_crash_the_whole_report_can_be_read_copied_and_deleted(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run(Paths(home).crashes, "abort").end()
    stage = Stage(open_desktop(), home)
    stage.desk.start()
    qtbot.waitUntil(stage.desk.banner.isVisible)
    assert "SIGABRT" in stage.desk.banner.text
    assert "goes nowhere by itself" in stage.desk.banner.text
    (path,) = stage.reports()
    assert list(stage.paths.crashes.glob(f"{LEFT}*")) == []
    stage.desk.banner.acted.emit()
    dialog = stage.dialog()
    assert dialog.text.toPlainText() == path.read_text("utf-8").rstrip("\n") + "\n"
    assert "ending_child.py" in dialog.text.toPlainText()
    dialog.copy.click()
    assert QGuiApplication.clipboard().text() == dialog.text.toPlainText()
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    dialog.reveal.click()
    assert opened == [str(path.parent)]
    dialog.delete.click()
    assert stage.reports() == []
    assert not stage.desk.banner.isVisible()
    stage.desk.close(CLOSE_SECONDS)


def test_a_forced_quit_is_told_as_information_and_a_fault_after_it_as_a_warning(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "__excepthook__", lambda *_: None)
    run = Run(Paths(home).crashes, "wait")
    run.send(signal.SIGKILL)
    run.end()
    stage = Stage(open_desktop(), home)
    stage.desk.start()
    qtbot.waitUntil(stage.desk.banner.isVisible)
    assert "ended from outside" in stage.desk.banner.text
    assert stage.desk.banner.tone == "muted"
    sys.excepthook(ValueError, ValueError("x"), None)
    qtbot.waitUntil(lambda: words.FAILED in stage.desk.banner.text)
    assert stage.desk.banner.tone == "notice"
    stage.desk.close(CLOSE_SECONDS)


def test_a_report_that_is_gone_is_said(stage: Stage, qtbot: QtBot) -> None:
    stage.desk.start()
    sys.excepthook(ValueError, ValueError("x"), None)
    qtbot.waitUntil(stage.desk.banner.isVisible)
    stage.reports()[0].unlink()
    stage.desk.banner.acted.emit()
    assert stage.desk.banner.text == words.GONE


def test_a_slot_that_fails_is_reported_once_and_the_window_goes_on(stage: Stage, qtbot: QtBot) -> None:
    stage.desk.start()
    stage.desktop.window.toast._timer.timeout.connect(fail)
    for _ in range(3):
        stage.desktop.window.toast._timer.timeout.emit()
    qtbot.waitUntil(stage.desk.banner.isVisible)
    assert words.FAILED in stage.desk.banner.text
    (path,) = stage.reports()
    report = path.read_text("utf-8")
    assert "in fail" in report
    assert "Thread MainThread" in report
    assert TYPED not in report
    assert stage.desktop.conversation.send("still there?")
    qtbot.waitUntil(lambda: not stage.desktop.conversation.state.busy)


def test_an_engine_that_ends_is_told_as_that(stage: Stage, qtbot: QtBot) -> None:
    stage.desk.start()
    thread = threading.Thread(target=fail, name=ENGINE_THREAD)
    thread.start()
    thread.join()
    qtbot.waitUntil(stage.desk.banner.isVisible)
    assert words.ENGINE_FAILED in stage.desk.banner.text


def test_many_failures_do_not_fill_the_folder(stage: Stage, qtbot: QtBot) -> None:
    stage.desk.start()
    kinds = [type(f"Kind{number}Error", (Exception,), {}) for number in range(MOST_FAILURES + 2)]
    for kind in kinds:
        sys.excepthook(kind, kind(), None)
    qtbot.waitUntil(lambda: len(stage.reports()) == MOST_FAILURES)
    assert sys.excepthook.__self__ is stage.desk._hooks  # type: ignore[attr-defined]
    stage.desk.close(CLOSE_SECONDS)
    assert getattr(sys.excepthook, "__self__", None) is not stage.desk._hooks


def test_safe_mode_is_said_and_left(open_desktop: OpenDesktop, qtbot: QtBot, home: Path) -> None:
    stage = Stage(open_desktop(), home, why_safe(True, False, 0))
    stage.desk.start()
    assert "mlxr --safe" in stage.desk.safe_banner.text
    assert stage.desk.safe_banner.isVisible()
    assert not stage.desk.banner.isVisible()
    with qtbot.waitSignal(stage.desk.restart_wanted):
        stage.desk.safe_banner.acted.emit()
    assert stage.session.wants_restart
    cached = stage.paths.kv_cache / ("0" * 32) / f"{'a' * 32}.safetensors"
    cached.parent.mkdir(parents=True)
    cached.write_text("x")
    stage.desk.forget()
    qtbot.waitUntil(lambda: not cached.parent.exists())
    stage.desk.close(CLOSE_SECONDS)


def test_what_a_deleted_chat_left_goes_before_the_end_and_reports_are_finished(
    open_desktop: OpenDesktop, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "__excepthook__", lambda *_: None)
    stage = Stage(open_desktop(), home, why_safe(True, False, 0))
    stage.desk.start()
    cached = stage.paths.kv_cache / ("0" * 32) / f"{'a' * 32}.safetensors"
    cached.parent.mkdir(parents=True)
    cached.write_text("x")
    keep_busy(stage.desk._background, monkeypatch)
    sys.excepthook(ValueError, ValueError("x"), None)
    while stage.desktop.queue._calls:  # more may wait there than a busy machine runs within one frame
        stage.desktop.queue._drain()
    stage.desk.forget()
    stage.desk.close(CLOSE_SECONDS)
    assert len(stage.reports()) == 1
    assert not cached.parent.exists()


def test_a_run_that_lasts_is_calm(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.desk.start()
    assert not stage.session.is_calm
    stage.desk._calm.timeout.emit()
    assert stage.session.is_calm
