"""Editing, answering anew, branching and switching in the real window, by clicks and by keys."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from app import text
from app.chat.chat_list_model import PLACE_ROLE
from app.chat.message_view import MessageView
from app.chat.token_path import tokens_along
from app.chat.user_message_view import UserMessageView
from app.wiring import Desktop
from engine import ChatMemory, ChatsCached, Forget
from tests.app.conftest import OpenDesktop
from tests.fakes.scripted_engine import ScriptedEngine

CONTROL = Qt.KeyboardModifier.ControlModifier
W = TypeVar("W", bound=QWidget)


@pytest.fixture
def desktop(open_desktop: OpenDesktop, qtbot: QtBot) -> Desktop:
    desktop = open_desktop()
    desktop.window.activateWindow()
    qtbot.waitUntil(desktop.window.isActiveWindow)
    return desktop


def engine_of(desktop: Desktop) -> ScriptedEngine:
    assert isinstance(desktop.engine, ScriptedEngine)
    return desktop.engine


def done(qtbot: QtBot, desktop: Desktop) -> None:
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)


def say(qtbot: QtBot, desktop: Desktop, question: str, answer: str) -> None:
    engine_of(desktop).reply = (answer,)
    field = desktop.pane.composer.focusProxy()
    qtbot.keyClicks(field, question)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    done(qtbot, desktop)


def shown(desktop: Desktop) -> list[str]:
    """The messages as they are on the screen, from the top."""
    views = desktop.pane.transcript.findChildren(MessageView)
    views = sorted((view for view in views if view.isVisible()), key=lambda view: view.y())
    return [view.message.text for view in views]


def view_of(desktop: Desktop, words: str) -> MessageView:
    views = desktop.pane.transcript.findChildren(MessageView)
    return next(view for view in views if view.isVisible() and view.message.text == words)


def button(inside: QWidget, label: str) -> QWidget:
    buttons = [*inside.findChildren(QToolButton), *inside.findChildren(QPushButton)]
    names = {b.accessibleName() or b.text().replace("&&", "&"): b for b in buttons}
    return names[label]


def click(qtbot: QtBot, inside: QWidget, label: str) -> None:
    QApplication.processEvents()
    qtbot.mouseClick(button(inside, label), Qt.MouseButton.LeftButton)


def test_a_message_is_edited_in_its_place(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    click(qtbot, view_of(desktop, "one"), "Edit this message")
    field = QApplication.focusWidget()
    assert field
    qtbot.keyClicks(field, " more")
    engine_of(desktop).reply = ("three",)
    click(qtbot, view_of(desktop, "one"), "Save & send")
    done(qtbot, desktop)
    assert shown(desktop) == ["one more", "three"]
    click(qtbot, view_of(desktop, "one more"), "Earlier version")
    qtbot.waitUntil(lambda: shown(desktop) == ["one", "two"])
    click(qtbot, view_of(desktop, "one"), "Later version")
    qtbot.waitUntil(lambda: shown(desktop) == ["one more", "three"])


def test_editing_by_keys_alone(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    view = view_of(desktop, "one")
    assert isinstance(view, UserMessageView)
    for _ in range(20):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        if view.edit_button.hasFocus():
            break
    qtbot.keyClick(view.edit_button, Qt.Key.Key_Space)
    qtbot.keyClicks(QApplication.focusWidget(), "!")
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    assert shown(desktop) == ["one", "two"]
    assert view.edit_button.hasFocus()
    qtbot.keyClick(view.edit_button, Qt.Key.Key_Space)
    qtbot.keyClicks(QApplication.focusWidget(), "!")
    engine_of(desktop).reply = ("three",)
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Return, CONTROL)
    done(qtbot, desktop)
    assert shown(desktop) == ["one!", "three"]


def test_escape_in_the_editor_stops_no_answer(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    click(qtbot, view_of(desktop, "one"), "Edit this message")
    editor = QApplication.focusWidget()
    engine_of(desktop).reply = ("a", "b")
    engine_of(desktop).hold_after = 1
    desktop.conversation.send("more")
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == "streaming")
    assert editor
    assert not button(view_of(desktop, "two"), "Regenerate this answer").isEnabled()
    assert not button(view_of(desktop, "one"), "Save & send").isEnabled()
    editor.setFocus()
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert desktop.conversation.state.phase == "streaming"
    view = view_of(desktop, "one")
    assert isinstance(view, UserMessageView)
    assert view.editor is None


def test_versions_are_switched_by_keys(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    for answer in ("zwei", "due"):
        engine_of(desktop).reply = (answer,)
        click(qtbot, view_of(desktop, desktop.conversation.messages[1].text), "Regenerate this answer")
        done(qtbot, desktop)
    assert shown(desktop) == ["one", "due"]
    view_of(desktop, "due").switch.earlier.setFocus()
    seen: list[str] = []
    for _ in range(4):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
        seen.append(shown(desktop)[-1])
    assert seen == ["zwei", "two", "zwei", "due"]  # where there is no earlier one, the way is back


def test_a_branch_is_a_new_chat(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    say(qtbot, desktop, "three", "four")
    click(qtbot, view_of(desktop, "two"), "New chat from here")
    qtbot.waitUntil(lambda: shown(desktop) == ["one", "two"])
    assert desktop.window.sidebar.list.titles() == ["Branch of one", "one"]
    assert desktop.window.sidebar.list.currentIndex().data() == "Branch of one"
    say(qtbot, desktop, "five", "six")
    last = engine_of(desktop).requests()[-1]
    assert last.history
    assert last.history.messages == 2
    assert shown(desktop) == ["one", "two", "five", "six"]


def test_versions_survive_a_restart(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    first = open_desktop(home=tmp_path / "home")
    say(qtbot, first, "one", "two")
    say(qtbot, first, "three", "four")
    first.conversation.regenerate(first.conversation.messages[1].id)
    done(qtbot, first)
    first.conversation.switch(first.conversation.messages[1].id, -1)
    first.close()
    again = open_desktop(home=tmp_path / "home")
    qtbot.waitUntil(lambda: len(again.chats.rows) == 1)
    again.window.sidebar.chosen.emit(again.chats.rows[0].chat.id)
    qtbot.waitUntil(lambda: shown(again) == ["one", "two", "three", "four"])
    click(qtbot, view_of(again, "two"), "Later version")
    assert shown(again) == ["one", "four"]


def test_what_is_typed_is_predicted_in_the_status_line(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    cached = len(tokens_along(desktop.conversation.messages))
    line = desktop.pane.status_line
    qtbot.keyClicks(desktop.pane.composer.focusProxy(), "three")
    qtbot.waitUntil(lambda: f"{cached} of " in line.words)
    assert "tokens cached, less than 0.1 s" in line.words
    predicted = engine_of(desktop).predictions()[-1]
    qtbot.keyClick(desktop.pane.composer.focusProxy(), Qt.Key.Key_Return)
    assert engine_of(desktop).requests()[-1].messages == predicted.messages
    assert engine_of(desktop).requests()[-1].history == predicted.history
    assert "cached" not in line.words
    done(qtbot, desktop)


def test_an_edit_stays_when_its_chat_is_chosen_again(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    click(qtbot, view_of(desktop, "one"), "Edit this message")
    field = QApplication.focusWidget()
    assert field
    qtbot.keyClicks(field, " more")
    rows = desktop.window.sidebar.list
    place = rows.visualRect(rows.model().index(0, 0)).center()
    qtbot.mouseClick(rows.viewport(), Qt.MouseButton.LeftButton, pos=place)
    view = view_of(desktop, "one")
    assert isinstance(view, UserMessageView)
    assert view.editor
    assert view.editor.text == "one more"


def test_an_edit_is_still_there_when_another_chat_was_on_show(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    chat = desktop.conversation.chat
    assert chat
    click(qtbot, view_of(desktop, "one"), "Edit this message")
    field = QApplication.focusWidget()
    assert field
    qtbot.keyClicks(field, " more")
    desktop.window.sidebar.new_wanted.emit()
    say(qtbot, desktop, "elsewhere", "there")
    desktop.window.sidebar.chosen.emit(chat.id)
    qtbot.waitUntil(lambda: shown(desktop) == ["one", "two"])
    view = view_of(desktop, "one")
    assert isinstance(view, UserMessageView)
    assert view.editor
    assert view.editor.text == "one more"

    engine_of(desktop).reply = ("three",)
    click(qtbot, view, "Save & send")
    done(qtbot, desktop)
    assert shown(desktop) == ["one more", "three"]
    click(qtbot, view_of(desktop, "one more"), "Earlier version")
    qtbot.waitUntil(lambda: shown(desktop) == ["one", "two"])
    view = view_of(desktop, "one")
    assert isinstance(view, UserMessageView)
    assert view.editor is None, "it was sent"


def test_an_edit_is_predicted_while_it_is_written(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    say(qtbot, desktop, "three", "four")
    click(qtbot, view_of(desktop, "three"), "Edit this message")
    qtbot.keyClicks(QApplication.focusWidget(), "!")
    qtbot.waitUntil(lambda: "cached" in desktop.pane.status_line.words)
    messages = engine_of(desktop).predictions()[-1].messages
    assert messages
    assert [message.content for message in messages] == ["one", "two", "three!"]
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    assert "cached" not in desktop.pane.status_line.words


def test_an_edit_is_predicted_again_when_another_path_is_on_show(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    say(qtbot, desktop, "three", "four")
    click(qtbot, view_of(desktop, "one"), "Edit this message")
    field, line = QApplication.focusWidget(), desktop.pane.status_line
    qtbot.keyClicks(field, "!")
    qtbot.waitUntil(lambda: "cached" in line.words)

    def is_predicted_again(before: int) -> None:
        qtbot.waitUntil(lambda: len(engine_of(desktop).predictions()) > before)
        messages = engine_of(desktop).predictions()[-1].messages
        assert messages
        assert [message.content for message in messages] == ["one!"]
        qtbot.waitUntil(lambda: "cached" in line.words)

    for take in (
        lambda: click(qtbot, view_of(desktop, "four"), "Regenerate this answer"),
        lambda: click(qtbot, view_of(desktop, "four"), "Earlier version"),
        lambda: say(qtbot, desktop, "five", "six"),
    ):
        asked = len(engine_of(desktop).predictions())
        take()
        done(qtbot, desktop)
        is_predicted_again(asked)


def test_a_miss_is_said_under_the_answer(qtbot: QtBot, desktop: Desktop) -> None:
    engine_of(desktop).miss = (512, "template changed")
    say(qtbot, desktop, "one", "two")
    notes = [label.text() for label in view_of(desktop, "two").findChildren(QLabel)]
    assert "Read again from token 512: the chat’s template changed" in "\n".join(notes).split("\n")


def test_a_deleted_chat_is_forgotten(qtbot: QtBot, desktop: Desktop) -> None:
    say(qtbot, desktop, "one", "two")
    chat = desktop.conversation.chat
    assert chat
    qtbot.waitUntil(lambda: chat.id in desktop.chats.memory)
    desktop.window.sidebar.list.deleted.emit(chat.id)
    assert engine_of(desktop).commands[-1] == Forget(chat.id)
    qtbot.waitUntil(lambda: chat.id not in desktop.chats.memory)


def test_dots_show_where_chats_lie(qtbot: QtBot, desktop: Desktop) -> None:
    for question in ("cold", "stored", "warm"):
        desktop.conversation.new_chat()
        say(qtbot, desktop, question, "answer")
    chats = {row.chat.title: row.chat.id for row in desktop.chats.rows}
    qtbot.waitUntil(lambda: set(desktop.chats.memory) == set(chats.values()))
    before = dots(desktop)
    desktop.chats.handle(
        ChatsCached({chats["warm"]: ChatMemory(2_100_000, 0, 0), chats["stored"]: ChatMemory(0, 65_536, 0)})
    )
    model = desktop.window.sidebar.list.model()
    rows = [model.index(row, 0) for row in range(3)]
    assert [index.data(PLACE_ROLE) for index in rows] == ["memory", "ssd", "cold"]
    assert [index.data(Qt.ItemDataRole.ToolTipRole) for index in rows] == [
        "warm\n2.1 MB in memory",
        "stored\n65.5 kB on SSD",
        f"cold\n{text.COLD}",
    ]
    assert rows[0].data(Qt.ItemDataRole.AccessibleTextRole) == "warm, 2.1 MB in memory"
    assert before == [True, True, True]
    assert dots(desktop) == [True, False, False]


def dots(desktop: Desktop) -> list[bool]:
    """Whether there is the accent's colour where each row's dot belongs."""
    view = desktop.window.sidebar.list
    image = view.viewport().grab().toImage()
    ratio = image.devicePixelRatio()
    found: list[bool] = []
    for row in range(3):
        rect = view.visualRect(view.model().index(row, 0))
        places = [QPoint(x, rect.center().y()) for x in range(rect.left() + 8, rect.left() + 26)]
        colours = {image.pixelColor(place * ratio).name() for place in places}
        found.append(desktop.appearance.theme.accent in colours)
    return found
