"""The inline editor: keys, buttons, and a height that follows the text."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.message_editor import MessageEditor

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def editor(qtbot: QtBot, appearance: Appearance) -> MessageEditor:
    editor = MessageEditor("What is a page?")
    qtbot.addWidget(editor)
    editor.resize(500, editor.fit(500))
    editor.show()
    return editor


def button(editor: MessageEditor, label: str) -> QPushButton:
    return next(b for b in editor.findChildren(QPushButton) if b.text().replace("&&", "&") == label)


def test_writing_goes_on_behind_the_old_text(qtbot: QtBot, editor: MessageEditor) -> None:
    drafts: list[str] = []
    editor.drafted.connect(drafts.append)
    qtbot.keyClicks(editor.focusProxy(), " An")
    assert drafts == ["What is a page? ", "What is a page? A", "What is a page? An"]


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_control_and_enter_send(qtbot: QtBot, editor: MessageEditor, key: Qt.Key) -> None:
    with qtbot.waitSignal(editor.sent) as sent:
        qtbot.keyClick(editor.focusProxy(), key, CONTROL)
    assert sent.args == ["What is a page?"]


def test_enter_alone_breaks_the_line(qtbot: QtBot, editor: MessageEditor) -> None:
    qtbot.keyClick(editor.focusProxy(), Qt.Key.Key_Return)
    assert editor.text == "What is a page?\n"


def test_escape_and_the_button_give_up(qtbot: QtBot, editor: MessageEditor) -> None:
    with qtbot.waitSignal(editor.cancelled):
        qtbot.keyClick(editor.focusProxy(), Qt.Key.Key_Escape)
    with qtbot.waitSignal(editor.cancelled):
        qtbot.mouseClick(button(editor, "Cancel"), Qt.MouseButton.LeftButton)


def test_nothing_is_sent_while_it_cannot_be(qtbot: QtBot, editor: MessageEditor) -> None:
    sent: list[str] = []
    editor.sent.connect(sent.append)
    editor.set_ready(False)
    qtbot.keyClick(editor.focusProxy(), Qt.Key.Key_Return, CONTROL)
    assert not button(editor, "Save & send").isEnabled()
    editor.set_ready(True)
    editor.focusProxy().setPlainText("  ")
    assert not button(editor, "Save & send").isEnabled()
    qtbot.keyClick(editor.focusProxy(), Qt.Key.Key_Return, CONTROL)
    assert sent == []
    editor.focusProxy().setPlainText("again")
    qtbot.mouseClick(button(editor, "Save & send"), Qt.MouseButton.LeftButton)
    assert sent == ["again"]


def test_its_height_follows_the_text_and_the_width(qtbot: QtBot, editor: MessageEditor) -> None:
    low = editor.fit(500)
    with qtbot.waitSignal(editor.height_changed):
        editor.focusProxy().setPlainText("word " * 60)
    assert editor.fit(500) > low
    assert editor.fit(300) > editor.fit(500)
    inside = [child.geometry() for child in (editor.focusProxy(), *editor.findChildren(QPushButton))]
    editor.resize(500, editor.fit(500))
    assert all(editor.rect().contains(part) for part in inside[:1])
    assert all(editor.rect().contains(child.geometry()) for child in editor.findChildren(QPushButton))
