"""The Tab key in the real window: wherever it stops, one sees where the keys are, and it comes round."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.dashboard.dashboard_page import PANES
from app.library.records import LeftOut
from app.models.left_out_dialog import TITLE, LeftOutDialog
from app.models.library_view import LibraryView
from app.models.repo_pane import RepoPane
from app.widgets.key_frame import KeyFrame
from app.widgets.settings_dialog import SettingsDialog
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop

MOST = 60


def stops(qtbot: QtBot, window: QWidget) -> list[str]:
    """Names of all that the Tab key reaches in `window`, each of which it must show and name."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
    first, found = QApplication.focusWidget(), list[str]()
    for _ in range(MOST):
        stop = QApplication.focusWidget()
        assert stop
        name = f"{type(stop).__name__} {stop.accessibleName()}"
        told = QAccessible.queryAccessibleInterface(stop).text(QAccessible.Text.Name)
        assert told, f"a screen reader has no name for {name}"
        with_keys = _look(window)
        stop.clearFocus()
        assert with_keys != _look(window), f"nothing shows that the keys are at {name}"
        found.append(name)
        stop.setFocus(Qt.FocusReason.TabFocusReason)
        QTest.keyClick(stop, Qt.Key.Key_Tab)
        if QApplication.focusWidget() is first:
            return found
    raise AssertionError(f"the Tab key does not come round: {found}")


def _look(window: QWidget) -> QImage:
    QApplication.processEvents()
    return window.grab().toImage()


@pytest.fixture
def desktop(open_desktop: OpenDesktop) -> Desktop:
    return open_desktop()


def test_in_an_empty_window_the_list_of_no_chats_is_no_stop(desktop: Desktop, qtbot: QtBot) -> None:
    found = stops(qtbot, desktop.window)
    assert not any(name.startswith("ChatListView") for name in found)
    assert "_Input Message" in found


def test_in_a_chat(desktop: Desktop, qtbot: QtBot) -> None:
    assert desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    qtbot.waitUntil(lambda: bool(desktop.chats.rows))
    assert {"ChatListView Chats", "Transcript Conversation"} <= set(stops(qtbot, desktop.window))
    desktop.conversation.new_chat()
    assert "ChatListView Chats" in stops(qtbot, desktop.window)  # none of its rows is the current one


def test_a_conversation_that_was_clicked_has_no_frame(desktop: Desktop, qtbot: QtBot) -> None:
    assert desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    transcript = desktop.pane.transcript
    (frame,) = transcript.findChildren(KeyFrame)
    desktop.window.activateWindow()
    qtbot.waitUntil(desktop.window.isActiveWindow)
    for reason, is_seen in (
        (Qt.FocusReason.MouseFocusReason, False),
        (Qt.FocusReason.ActiveWindowFocusReason, False),
        (Qt.FocusReason.BacktabFocusReason, True),
        (Qt.FocusReason.ActiveWindowFocusReason, True),
    ):
        desktop.window.sidebar.search_field.setFocus()
        assert not frame.isVisible()
        transcript.setFocus(reason)
        assert frame.isVisible() == is_seen
        assert frame.size() == transcript.size()


def test_on_the_dashboard(desktop: Desktop, qtbot: QtBot) -> None:
    desktop.pane.dashboard_wanted.emit()
    qtbot.waitUntil(lambda: desktop.dashboard.desk is not None)
    desk = desktop.dashboard.desk
    assert desk
    qtbot.waitUntil(lambda: desktop.window.is_shown(desk.page) and desk.page.is_whole)
    for name in PANES:
        desk.page.show_tab(name)
        found = stops(qtbot, desktop.window)
        if isinstance(pane := desk.page.stack.currentWidget(), QScrollArea):
            assert f"{type(pane).__name__} {name}" in found


def test_on_the_models_page(desktop: Desktop, qtbot: QtBot) -> None:
    desktop.models_door.toggle()
    qtbot.waitUntil(lambda: bool(desktop.window.findChildren(LibraryView)))
    (models,) = desktop.window.findChildren(LibraryView)
    qtbot.waitUntil(lambda: models.model().rowCount() > 0)
    assert "LibraryView My models" in stops(qtbot, desktop.window)


def test_where_models_are_found(desktop: Desktop, qtbot: QtBot) -> None:
    desktop.models_door.discover()
    qtbot.waitUntil(lambda: bool(desktop.window.findChildren(RepoPane)))
    (repo,) = desktop.window.findChildren(RepoPane)
    qtbot.waitUntil(repo.isVisible)
    assert "RepoPane Chosen model" in stops(qtbot, desktop.window)


def test_among_what_is_no_model(qtbot: QtBot, appearance: Appearance) -> None:
    dialog = LeftOutDialog([LeftOut(Path(f"/models/{number}"), "no weights") for number in range(30)])
    qtbot.addWidget(dialog)
    dialog.show()
    assert f"QScrollArea {TITLE}" in stops(qtbot, dialog)


def test_in_settings(desktop: Desktop, qtbot: QtBot) -> None:
    desktop.pane.settings_wanted.emit()
    dialog = desktop.window.findChild(SettingsDialog)
    assert dialog
    qtbot.waitUntil(dialog.isVisible)
    stops(qtbot, dialog)
