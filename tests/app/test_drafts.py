"""What was typed and not sent, in the window and after its end: each chat's own, and nothing of it lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPlainTextEdit
from pytestqt.qtbot import QtBot

from app import text
from app.paths import Paths
from app.store import worker
from app.store.chats import ChatStore
from app.store.database import open_database
from app.store.records import Draft
from app.store.worker import CHATS_KEPT
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop
from tests.fakes.scripted_engine import ScriptedEngine

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0

CHILD = """
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from app.measure.paced_engine import PacedEngine
from app.paths import Paths
from app.application import make_application
from app.wiring import Desktop

application = make_application()
desktop = Desktop(application, lambda emit: PacedEngine(emit, 100.0, 1), Paths(Path(sys.argv[1])))
field = desktop.pane.composer.focusProxy()

def write():
    field.insertPlainText("in the chat")
    desktop.conversation.new_chat()
    field.insertPlainText("in none yet")
    look.start()

def ask():
    desktop.store.ask(lambda store: store.drafts(), lambda drafts: print(len(drafts), flush=True))

look = QTimer()
look.timeout.connect(ask)
desktop.models.opened.connect(lambda path: desktop.conversation.send("What is a page?"))
desktop.conversation.asked.connect(lambda _: QTimer.singleShot(0, write))
desktop.start(Path("paced"))
application.exec()
"""


def field(desktop: Desktop) -> QPlainTextEdit:
    """Where one types."""
    input_field = desktop.pane.composer.focusProxy()
    assert isinstance(input_field, QPlainTextEdit)
    return input_field


def begin(qtbot: QtBot, desktop: Desktop, question: str) -> str:
    """Type and send the first message of a chat; returns the chat's id."""
    desktop.window.sidebar.new_wanted.emit()
    qtbot.keyClicks(field(desktop), question)
    qtbot.keyClick(field(desktop), Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(desktop.conversation.messages) == 2 and not desktop.conversation.state.busy)
    assert desktop.conversation.chat
    return desktop.conversation.chat.id


def choose(qtbot: QtBot, desktop: Desktop, chat_id: str) -> None:
    """Choose a chat in the list, and wait for it."""
    desktop.window.sidebar.chosen.emit(chat_id)
    qtbot.waitUntil(lambda: (chat := desktop.conversation.chat) is not None and chat.id == chat_id)


def stored(home: Path) -> dict[str, str]:
    """The drafts in the database of a window that has ended."""
    with closing(open_database(Paths(home).chats).connection) as connection:
        return ChatStore(connection).drafts()


@contextmanager
def held(desktop: Desktop) -> Iterator[None]:
    """The store's thread is busy with something else meanwhile."""
    done, begun = threading.Event(), threading.Event()

    def hold(store: ChatStore) -> None:
        begun.set()
        assert done.wait(PATIENCE)

    desktop.store.ask(hold, lambda _: None)
    assert begun.wait(PATIENCE)
    try:
        yield
    finally:
        done.set()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_each_chat_keeps_what_was_typed_in_it(open_desktop: OpenDesktop, qtbot: QtBot, home: Path) -> None:
    desktop = open_desktop(home=home)
    composer = desktop.pane.composer
    first, second = begin(qtbot, desktop, "first"), begin(qtbot, desktop, "second")
    qtbot.keyClicks(field(desktop), "for the second")
    choose(qtbot, desktop, first)
    assert composer.text == ""
    qtbot.keyClicks(field(desktop), "for the first")
    desktop.window.sidebar.new_wanted.emit()
    assert composer.text == ""
    qtbot.keyClicks(field(desktop), "for a new one")
    choose(qtbot, desktop, second)
    assert composer.text == "for the second"
    field(desktop).undo()
    assert composer.text == "for the second", "what is undone is what was typed here"
    qtbot.keyClicks(field(desktop), ", too")
    desktop.window.sidebar.new_wanted.emit()
    assert composer.text == "for a new one"
    desktop.close()
    assert stored(home) == {first: "for the first", second: "for the second, too", "": "for a new one"}


def test_what_was_typed_right_before_the_end_is_there_again(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path
) -> None:
    first = open_desktop(home=home)
    chat = begin(qtbot, first, "first")
    qtbot.keyClicks(field(first), "in the chat")
    first.window.sidebar.new_wanted.emit()
    field(first).insertPlainText("in none yet,\n\tπ 🦙")
    first.close()
    again = open_desktop(home=home)
    qtbot.waitUntil(lambda: again.pane.composer.text == "in none yet,\n\tπ 🦙")
    assert field(again).textCursor().atEnd()
    qtbot.waitUntil(lambda: again.chats.find(chat) is not None)
    row = again.window.sidebar.list.model().index(0, 0)
    assert text.DRAFT in row.data(Qt.ItemDataRole.AccessibleTextRole)
    choose(qtbot, again, chat)
    assert again.pane.composer.text == "in the chat"
    assert field(again).textCursor().atEnd()


def test_what_is_there_again_is_asked_about_as_if_it_were_typed(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path
) -> None:
    first = open_desktop(home=home)
    chat = begin(qtbot, first, "first")
    qtbot.keyClicks(field(first), "And then?")
    first.window.sidebar.new_wanted.emit()
    qtbot.keyClicks(field(first), "Something else")
    first.close()
    again = open_desktop(home=home)
    assert isinstance(again.engine, ScriptedEngine)
    qtbot.waitUntil(lambda: "tokens cached" in again.pane.status_line.words)
    told = again.engine.predictions()[-1].messages
    assert told
    assert [message.content for message in told] == ["Something else"]
    qtbot.waitUntil(lambda: again.chats.find(chat) is not None)
    choose(qtbot, again, chat)
    assert "tokens cached" not in again.pane.status_line.words
    qtbot.waitUntil(lambda: "tokens cached" in again.pane.status_line.words)
    asked = again.engine.predictions()[-1]
    assert asked.chat == chat
    assert asked.messages
    assert [message.content for message in asked.messages] == ["first", "Pages hold tokens.", "And then?"]


def test_what_was_sent_is_not_there_again(open_desktop: OpenDesktop, qtbot: QtBot, home: Path) -> None:
    desktop = open_desktop(home=home)
    qtbot.keyClicks(field(desktop), "to be sent")
    desktop.drafts.save_now()
    begin(qtbot, desktop, ", all of it")
    assert desktop.conversation.messages[0].text == "to be sent, all of it"
    assert desktop.pane.composer.text == ""
    kept: list[dict[str, str]] = []
    desktop.store.ask(lambda store: store.drafts(), kept.append)
    qtbot.waitUntil(lambda: kept == [{}])
    desktop.window.sidebar.new_wanted.emit()
    assert desktop.pane.composer.text == ""


def test_what_could_not_be_sent_stays(open_desktop: OpenDesktop, qtbot: QtBot, home: Path) -> None:
    desktop = open_desktop(home=home)
    assert isinstance(desktop.engine, ScriptedEngine)
    desktop.engine.hold_after = 1
    assert desktop.conversation.send("Tell me")
    qtbot.keyClicks(field(desktop), "thanks")
    qtbot.keyClick(field(desktop), Qt.Key.Key_Return)
    assert desktop.pane.composer.text == "thanks"
    assert desktop.conversation.chat
    desktop.close()
    assert stored(home) == {desktop.conversation.chat.id: "thanks"}


def test_a_deleted_chat_takes_it_along_and_brings_it_back(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path
) -> None:
    desktop = open_desktop(home=home)
    qtbot.keyClicks(field(desktop), "for a new one")
    desktop.conversation.send("a suggestion")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    chat = desktop.conversation.chat
    assert chat
    assert desktop.pane.composer.text == "for a new one", "the new chat is this one now"
    desktop.window.sidebar.list.deleted.emit(chat.id)
    assert desktop.pane.composer.text == ""
    desktop.window.toast._button.click()
    choose(qtbot, desktop, chat.id)
    assert desktop.pane.composer.text == "for a new one"
    desktop.window.sidebar.list.deleted.emit(chat.id)
    desktop.close()
    assert stored(home) == {chat.id: "for a new one"}, "it is in the trash"
    open_desktop(home=home).close()
    assert stored(home) == {}


def test_no_chat_gets_the_words_of_another_while_the_store_is_slow(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path
) -> None:
    desktop = open_desktop(home=home)
    composer, sidebar = desktop.pane.composer, desktop.window.sidebar
    first, second = begin(qtbot, desktop, "first"), begin(qtbot, desktop, "second")
    qtbot.keyClicks(field(desktop), "for the second")
    choose(qtbot, desktop, first)
    qtbot.keyClicks(field(desktop), "for the first")
    sidebar.new_wanted.emit()
    with held(desktop):
        sidebar.chosen.emit(first)
        sidebar.chosen.emit(second)
        qtbot.keyClicks(field(desktop), "for a new one")
        assert composer.text == "for a new one"
    qtbot.waitUntil(lambda: desktop.conversation.chat is not None)
    assert desktop.conversation.chat
    assert desktop.conversation.chat.id == second
    assert composer.text == "for the second"
    with held(desktop):
        sidebar.chosen.emit(first)
        qtbot.keyClicks(field(desktop), ", too")
        sidebar.new_wanted.emit()
        qtbot.keyClicks(field(desktop), "!")
        assert composer.text == "for a new one!"
    desktop.close()
    assert stored(home) == {first: "for the first", second: "for the second, too", "": "for a new one!"}


@pytest.fixture
def slow_start(home: Path, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A data folder with a draft, whose store begins to work when the event is set."""
    Paths(home).home.mkdir()
    with closing(open_database(Paths(home).chats).connection) as connection:
        ChatStore(connection).save_draft(Draft("", "earlier"))
    go_on = threading.Event()

    def begin_late(store: ChatStore) -> None:
        assert go_on.wait(PATIENCE)
        CHATS_KEPT.begin(store)

    monkeypatch.setattr(worker, "CHATS_KEPT", replace(CHATS_KEPT, begin=begin_late))
    return go_on


def test_what_is_typed_before_the_store_has_begun_loses_nothing(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path, slow_start: threading.Event
) -> None:
    desktop = open_desktop(home=home)
    qtbot.keyClicks(field(desktop), "typed")
    field(desktop).moveCursor(QTextCursor.MoveOperation.Start)
    assert desktop.pane.composer.text == "typed"
    slow_start.set()
    qtbot.waitUntil(lambda: desktop.pane.composer.text == "earlier\ntyped")
    assert field(desktop).textCursor().atEnd()
    qtbot.keyClicks(field(desktop), " on")
    desktop.close()
    assert stored(home) == {"": "earlier\ntyped on"}


def test_what_is_typed_before_the_store_has_begun_is_kept_at_the_end(
    open_desktop: OpenDesktop, qtbot: QtBot, home: Path, slow_start: threading.Event
) -> None:
    desktop = open_desktop(home=home)
    qtbot.keyClicks(field(desktop), "typed")
    slow_start.set()
    desktop.close()  # and no event is handled in between
    assert stored(home) == {"": "earlier\ntyped"}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_kill_9_leaves_what_was_typed(open_desktop: OpenDesktop, qtbot: QtBot, home: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(home)],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout
    while int(child.stdout.readline()) < 2:
        pass
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=PATIENCE)
    desktop = open_desktop(home=home)
    qtbot.waitUntil(lambda: desktop.pane.composer.text == "in none yet")
    qtbot.waitUntil(lambda: len(desktop.chats.rows) == 1)
    choose(qtbot, desktop, desktop.chats.rows[0].chat.id)
    assert desktop.pane.composer.text == "in the chat"
