"""The window: keys, dropping and choosing models, and small sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QLabel, QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from app import text
from app.model_location import GUIDE
from app.shortcuts import SHORTCUTS
from app.window import MENUS, ROOM_FOR_SIDEBAR, SIZE, TITLE_BAR
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop
from tests.fakes.dragging import drop
from tests.fakes.scripted_engine import ScriptedEngine


@pytest.fixture
def desktop(open_desktop: OpenDesktop, qtbot: QtBot) -> Desktop:
    desktop = open_desktop()
    desktop.window.activateWindow()
    qtbot.waitUntil(desktop.window.isActiveWindow)
    return desktop


def test_a_new_window_fits_into_a_small_screen_with_its_frame(desktop: Desktop) -> None:
    screen = desktop.window.screen().availableSize()
    assert screen.width() < SIZE[0]
    assert desktop.window.width() <= screen.width()
    assert desktop.window.height() + TITLE_BAR <= screen.height()


def test_every_shortcut_is_bound_once(desktop: Desktop) -> None:
    bound = {action.shortcut().toString() for action in desktop.window.actions()}
    handled_by_the_field = {"Return", "Shift+Return", "Ctrl+Return"}
    assert bound == {shortcut.keys for shortcut in SHORTCUTS} - handled_by_the_field


def test_keys_reach_their_actions(desktop: Desktop, qtbot: QtBot) -> None:
    window = desktop.window
    qtbot.keyClick(window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    assert window.sidebar.isHidden()
    qtbot.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert window.sidebar.isVisible()
    assert window.sidebar.search_field.hasFocus()
    desktop.conversation.send("hello")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert desktop.conversation.messages == ()


def test_a_mac_gets_a_menu_bar_with_every_action(desktop: Desktop) -> None:
    actions = {name: QAction(name, desktop.window) for _, names in MENUS for name in names}
    desktop.window.fill_menu_bar(actions)
    shown = [action.text() for menu in desktop.window.menuBar().actions() for action in menu.menu().actions()]
    assert sorted(shown) == sorted(actions)
    assert {shortcut.action for shortcut in SHORTCUTS} - {"send", "line_break", "send_edit"} == set(actions)


def test_the_title_bar_names_the_chat(desktop: Desktop, qtbot: QtBot) -> None:
    assert desktop.window.windowTitle() == "MLXR"
    desktop.conversation.send("hello")
    assert desktop.window.windowTitle() == "hello – MLXR"
    assert desktop.conversation.chat
    desktop.chats.rename(desktop.conversation.chat.id, "Greetings")
    assert desktop.window.windowTitle() == "Greetings – MLXR"
    desktop.conversation.new_chat()
    assert desktop.window.windowTitle() == "MLXR"


def test_escape_stops_the_answer(desktop: Desktop, qtbot: QtBot) -> None:
    assert isinstance(desktop.engine, ScriptedEngine)
    desktop.engine.hold_after = 1
    desktop.conversation.send("hello")
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == "streaming")
    qtbot.keyClick(desktop.pane.composer.focusProxy(), Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert desktop.conversation.messages[-1].status == "stopped"


def test_a_dropped_folder_is_opened(desktop: Desktop, tmp_path: Path) -> None:
    assert drop(desktop.window, tmp_path)
    assert desktop.models.state.path == str(tmp_path)


def test_other_things_are_not_taken(desktop: Desktop, tmp_path: Path) -> None:
    file, other = tmp_path / "file.txt", tmp_path / "other"
    file.write_text("")
    other.mkdir()
    assert not drop(desktop.window, file)
    assert not drop(desktop.window, tmp_path, other)
    assert not drop(desktop.window, tmp_path / "gone.gguf")
    assert not drop(desktop.window)


def test_choosing_a_folder_opens_it(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *args: str(tmp_path))
    desktop.pane.model_button.folders_wanted.emit()
    assert desktop.models.state.path == str(tmp_path)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *args: "")
    desktop.pane.model_button.folders_wanted.emit()
    assert desktop.models.state.path == str(tmp_path)


@pytest.mark.parametrize(
    "name", ["small.gguf", "SMALL.GGUF", "config.json", "model-00001-of-00002.safetensors"]
)
def test_choosing_a_file_opens_it_or_the_folder_around_it(
    desktop: Desktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / name
    file.write_text("")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *args: (str(file), ""))
    desktop.pane.model_button.files_wanted.emit()
    assert desktop.models.state.path == str(file if name.lower().endswith(".gguf") else tmp_path)
    before = desktop.models.state.path
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *args: ("", ""))
    desktop.pane.model_button.files_wanted.emit()
    assert desktop.models.state.path == before


def test_the_open_key_offers_files_folders_and_recent_models(
    desktop: Desktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *args: str(tmp_path))
    qtbot.keyClick(desktop.window, Qt.Key.Key_O, Qt.KeyboardModifier.ControlModifier)
    menu = desktop.pane.model_button.menu()
    qtbot.waitUntil(menu.isVisible)
    offered = [action.text() for action in menu.actions() if action.text()]
    assert offered[-2:] == [text.OPEN_MODEL, text.OPEN_FOLDER]
    qtbot.keyClick(menu, Qt.Key.Key_Up)  # from the first one to the last
    qtbot.keyClick(menu, Qt.Key.Key_Return)
    assert desktop.models.state.path == str(tmp_path)


def test_parts_of_a_split_file_are_one_model(desktop: Desktop, tmp_path: Path) -> None:
    parts = [tmp_path / f"big-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for part in parts:
        part.write_text("")
    assert drop(desktop.window, parts[2], parts[1])
    assert desktop.models.state.path == str(parts[0])
    assert desktop.models.state.name == "big"
    parts[0].unlink()  # the engine says which part is missing
    assert drop(desktop.window, parts[1])
    assert desktop.models.state.path == str(parts[1])


def test_a_narrow_window_hides_the_sidebar_and_a_wide_one_brings_it_back(
    desktop: Desktop, qtbot: QtBot
) -> None:
    desktop.window.resize(640, 480)
    qtbot.waitUntil(desktop.window.sidebar.isHidden)
    desktop.window.toggle_sidebar()
    assert desktop.window.sidebar.isVisible()
    desktop.window.resize(ROOM_FOR_SIDEBAR + 100, 600)
    qtbot.waitUntil(desktop.window.sidebar.isVisible)


def test_the_keys_go_from_a_sidebar_that_is_hidden_to_the_message(desktop: Desktop, qtbot: QtBot) -> None:
    window = desktop.window
    window.search()
    assert window.sidebar.search_field.hasFocus()
    window.toggle_sidebar()
    assert desktop.pane.composer.focusProxy().hasFocus()
    window.search()
    window.resize(640, 480)
    qtbot.waitUntil(window.sidebar.isHidden)
    assert desktop.pane.composer.focusProxy().hasFocus()


@pytest.mark.parametrize("size", [(640, 480), (900, 600)])
def test_nothing_is_cut_off(desktop: Desktop, qtbot: QtBot, size: tuple[int, int]) -> None:
    desktop.window.resize(*size)
    qtbot.wait(30)
    for kind in (QLabel, QPushButton, QToolButton):
        for widget in desktop.window.findChildren(kind):
            if widget.isVisible() and not widget.visibleRegion().isEmpty():
                room = widget.visibleRegion().boundingRect()
                assert room.size() == widget.size(), f"{widget.objectName()} {widget.accessibleName()}"


def test_every_control_can_be_named_and_reached(desktop: Desktop) -> None:
    for button in desktop.window.findChildren(QToolButton):
        if button.objectName() not in ("qt_toolbar_ext_button",) and not button.inherits(
            "QLineEditIconButton"
        ):
            assert button.accessibleName() or button.text(), button.objectName()
            assert button.focusPolicy() != Qt.FocusPolicy.NoFocus


def test_the_tab_key_goes_through_a_new_chat_in_the_order_of_reading(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop(model=GUIDE)
    window, empty, composer = desktop.window, desktop.pane.empty_state, desktop.pane.composer
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    assert len(empty.suggestions) > 1
    assert not empty.find_model.isHidden()
    for control in reversed([*empty.suggestions, empty.find_model]):
        focused = window.focusWidget()
        qtbot.keyClick(focused, Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
        assert control.hasFocus()
    for control in (*empty.suggestions[1:], empty.find_model, composer.focusProxy()):
        qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        assert control.hasFocus()
