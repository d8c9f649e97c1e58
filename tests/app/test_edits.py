"""A message that is being changed: its new words are there again, whatever has ended the window meanwhile."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtWidgets import QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.chat.user_message_view import UserMessageView
from app.paths import Paths
from app.store.chats import ChatStore
from app.store.database import open_database
from app.wiring import Desktop
from tests.app.chat.transcripts import view_of
from tests.app.conftest import OpenDesktop


def begin(qtbot: QtBot, desktop: Desktop, question: str) -> str:
    """Ask the first question of a chat; returns its id."""
    desktop.conversation.new_chat()
    desktop.conversation.send(question)
    qtbot.waitUntil(lambda: len(desktop.conversation.messages) == 2 and not desktop.conversation.state.busy)
    assert desktop.conversation.chat
    return desktop.conversation.chat.id


def choose(qtbot: QtBot, desktop: Desktop, chat_id: str) -> UserMessageView:
    """Choose a chat in the list; returns its first message."""
    qtbot.waitUntil(lambda: any(row.chat.id == chat_id for row in desktop.chats.rows))
    desktop.window.sidebar.chosen.emit(chat_id)
    qtbot.waitUntil(lambda: (chat := desktop.conversation.chat) is not None and chat.id == chat_id)
    transcript, question = desktop.pane.transcript, desktop.conversation.messages[0].id
    qtbot.waitUntil(lambda: view_of(transcript, question) is not None)
    view = view_of(transcript, question)
    assert isinstance(view, UserMessageView)
    return view


def write(view: UserMessageView, words: str) -> None:
    """Type `words` in its editor in the place of all that is there."""
    assert view.editor
    field = view.editor.focusProxy()
    assert isinstance(field, QPlainTextEdit)
    field.setPlainText(words)


def stored(home: Path) -> dict[str, str]:
    """What the database has, which another program may read meanwhile."""
    with closing(open_database(Paths(home).chats).connection) as connection:
        return ChatStore(connection).edits()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_new_words_are_saved_while_they_are_written_and_there_after_a_restart(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path
) -> None:
    desktop = open_desktop(home=home)
    first, second = begin(qtbot, desktop, "first"), begin(qtbot, desktop, "second")
    view = choose(qtbot, desktop, first)
    view.start_editing()
    write(view, "first, and more 🦙")
    expected = {view.message.id: "first, and more 🦙"}
    qtbot.waitUntil(lambda: stored(home) == expected)  # nothing has ended: a kill now loses nothing
    view = choose(qtbot, desktop, second)
    view.start_editing()
    write(view, "second, changed at last")
    desktop.close()
    assert list(stored(home).values()) == ["first, and more 🦙", "second, changed at last"]

    again = open_desktop(home=home)
    view = choose(qtbot, again, first)
    assert view.editor
    assert view.editor.text == "first, and more 🦙"
    assert again.pane.transcript.editing == ("first, and more 🦙", view.message.id)
    view.editor.sent.emit("first, sent")
    qtbot.waitUntil(lambda: again.conversation.messages[0].text == "first, sent")
    view = choose(qtbot, again, second)
    assert view.editor
    view.stop_editing()
    qtbot.waitUntil(lambda: stored(home) == {})
    again.close()


def test_what_was_written_before_the_store_has_answered_is_newer(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path
) -> None:
    desktop = open_desktop(home=home)
    chat = begin(qtbot, desktop, "question")
    view = choose(qtbot, desktop, chat)
    view.start_editing()
    write(view, "an earlier change")
    desktop.edits.save_now()
    write(view, "a later one")
    desktop.edits.load()
    answered = list[None]()
    desktop.store.ask(lambda _: None, answered.append)
    qtbot.waitUntil(lambda: bool(answered))
    assert desktop.edits.words(view.message.id) == "a later one"
    desktop.edits.write(view.message.id, "half a pair \ud83e")
    desktop.close()
    assert stored(home) == {view.message.id: "half a pair ?"}


def test_they_are_forgotten_once_what_was_sent_is_kept(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path
) -> None:
    desktop = open_desktop(home=home)
    view = choose(qtbot, desktop, begin(qtbot, desktop, "question"))
    view.start_editing()
    write(view, "changed")
    old = view.message.id
    kept: list[tuple[str, str | None]] = []
    desktop.pane.transcript.edited.connect(
        lambda: kept.append((desktop.conversation.messages[0].text, desktop.edits.words(old)))
    )
    assert view.editor
    view.editor.sent.emit("changed")
    assert kept == [("changed", "changed")]
    assert desktop.edits.words(old) is None
    desktop.close()
    assert stored(home) == {}


def test_the_one_written_in_last_is_the_last_after_a_restart(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path
) -> None:
    desktop = open_desktop(home=home)
    begin(qtbot, desktop, "a question")
    for number in range(7):
        assert desktop.conversation.send(f"question {number}")
        qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    questions = [message.id for message in desktop.conversation.messages if message.role == "user"]
    for question in (*questions, questions[0]):
        desktop.edits.write(question, "changed")
    desktop.close()
    assert list(stored(home)) == [*questions[1:], questions[0]]
