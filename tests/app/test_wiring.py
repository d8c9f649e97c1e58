"""The window as a whole: what is kept, what goes wrong, and what is said about it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLabel
from pytestqt.qtbot import QtBot

from app import text
from app.paths import Paths
from app.store.schema import MIGRATIONS
from app.widgets.settings_dialog import SettingsDialog
from app.wiring import Desktop
from engine import (
    Command,
    Event,
    Forget,
    Generate,
    LoadModel,
    Pin,
    PrefillProgress,
    TextChunk,
)
from tests.app.conftest import OpenDesktop
from tests.fakes.scripted_engine import ScriptedEngine


def say(qtbot: QtBot, desktop: Desktop, question: str) -> str:
    """Ask, and return the answer."""
    assert desktop.conversation.send(question)
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    return desktop.conversation.messages[-1].text


def titles(desktop: Desktop) -> list[str]:
    return desktop.window.sidebar.list.titles()


def test_loaded_is_shown_only_when_the_engine_says_so(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop(wait=False)
    assert desktop.models.state.phase == "loading"
    assert "Opening" in desktop.pane.status_line.words
    qtbot.waitUntil(lambda: desktop.models.state.phase == "ready")
    assert desktop.pane.status_line.words == "tiny-chat  0 / 2,048 tokens  0 / 512 pages"


def test_chats_survive_a_restart(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    first = open_desktop(home=tmp_path / "home")
    say(qtbot, first, "first question")
    first.conversation.new_chat()
    say(qtbot, first, "second question")
    first.close()
    again = open_desktop(home=tmp_path / "home")
    qtbot.waitUntil(lambda: titles(again) == ["second question", "first question"])
    again.window.sidebar.chosen.emit(again.chats.rows[1].chat.id)
    qtbot.waitUntil(lambda: len(again.conversation.messages) == 2)
    assert [message.text for message in again.conversation.messages] == [
        "first question",
        "Pages hold tokens.",
    ]
    assert again.window.sidebar.list.currentIndex().data() == "first question"
    say(qtbot, again, "and more")
    assert titles(again) == ["first question", "second question"]


def test_the_status_line_has_the_context_of_the_chat_on_show(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    first = open_desktop(home=tmp_path / "home")
    line = first.pane.status_line
    say(qtbot, first, "first question")
    asked = len("<user>first question")
    assert f"{asked + 4} / 2,048 tokens" in line.words
    first.conversation.new_chat()
    assert "0 / 2,048 tokens" in line.words.split("  ")
    first.close()
    again = open_desktop(home=tmp_path / "home")
    line = again.pane.status_line
    assert "0 / 2,048 tokens" in line.words.split("  ")
    qtbot.waitUntil(lambda: len(titles(again)) == 1)
    again.window.sidebar.chosen.emit(again.chats.rows[0].chat.id)
    qtbot.waitUntil(lambda: len(again.conversation.messages) == 2)
    assert f"{asked + 4} / 2,048 tokens" in line.words


def test_a_note_about_a_chat_with_a_long_title_leaves_the_chat_on_show_to_be_read(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop()
    desktop.window.resize(640, 480)
    say(qtbot, desktop, "to be deleted")
    chat = desktop.conversation.chat
    assert chat
    desktop.window.sidebar.list.renamed.emit(chat.id, "word " * 800)
    note = desktop.window.toast
    for intent in (desktop.window.sidebar.list.link_wanted, desktop.window.sidebar.list.deleted):
        intent.emit(chat.id)
        assert "word word word" in note.text
        assert note.height() < desktop.window.height() / 5
        assert desktop.window.rect().contains(note.geometry())


def test_the_chat_that_is_deleted_can_be_brought_back(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    say(qtbot, desktop, "to be deleted")
    chat = desktop.conversation.chat
    assert chat
    desktop.window.sidebar.list.deleted.emit(chat.id)
    assert titles(desktop) == []
    assert desktop.conversation.messages == ()
    assert "to be deleted" in desktop.window.toast.text
    desktop.window.toast._button.click()
    assert titles(desktop) == ["to be deleted"]
    desktop.window.sidebar.chosen.emit(chat.id)
    qtbot.waitUntil(lambda: len(desktop.conversation.messages) == 2)


def test_while_answers_wait_to_be_kept_it_is_said_why_nothing_is_sent(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop()
    composer, line = desktop.pane.composer, desktop.pane.status_line
    assert desktop.conversation.send("Tell me", 2)
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == "choosing")
    qtbot.keyClicks(composer.focusProxy(), "thanks")
    qtbot.keyClick(composer.focusProxy(), Qt.Key.Key_Return)
    assert composer.text == "thanks"
    assert text.KEEP_FIRST in line.words
    assert composer.button.toolTip() == text.KEEP_FIRST
    desktop.conversation.keep(desktop.conversation.messages[-1].id)
    assert text.KEEP_FIRST not in line.words
    assert composer.button.toolTip() == "Send"


class SlowReader(ScriptedEngine):
    """Answers nothing by itself: the test says how far the prompts are."""

    def submit(self, command: Command) -> None:
        """Take requests, and leave them."""
        if isinstance(command, Generate):
            self.commands.append(command)
        else:
            super().submit(command)

    def say(self, event: Event) -> None:
        """Tell the window."""
        self._emit(event)


def test_a_prompt_that_is_read_for_another_chat_is_told_as_such(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop(SlowReader)
    engine, line, composer = desktop.engine, desktop.pane.status_line, desktop.pane.composer
    assert isinstance(engine, SlowReader)
    assert desktop.conversation.send("a long one")
    first = engine.requests()[-1].id
    engine.say(PrefillProgress(first, 512, 6004, 0))
    qtbot.waitUntil(lambda: "  Reading 512 of 6,004 tokens  " in line.words)
    desktop.conversation.new_chat()
    assert "  Another answer: reading 512 of 6,004 tokens  " in line.words

    qtbot.keyClicks(composer.focusProxy(), "a short one")
    qtbot.waitUntil(lambda: "tokens cached" in line.words)  # what a send would find is said all the same
    engine.say(PrefillProgress(first, 1024, 6004, 0))
    qtbot.keyClick(composer.focusProxy(), Qt.Key.Key_Return)
    said = desktop.pane.transcript.findChildren(QLabel, "activity")[-1]
    qtbot.waitUntil(lambda: said.text() == "Waiting for another answer: reading 1,024 of 6,004 tokens")

    engine.say(TextChunk(engine.requests()[-1].id, "Yes", 1))
    qtbot.waitUntil(lambda: desktop.conversation.messages[-1].text == "Yes")
    assert "  Another answer: reading 1,024 of 6,004 tokens  " in line.words


def test_what_a_send_would_find_is_asked_anew_when_another_prompt_has_been_read(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop(SlowReader)
    engine = desktop.engine
    assert isinstance(engine, SlowReader)
    assert desktop.conversation.send("a long one")
    first = engine.requests()[-1].id
    engine.say(PrefillProgress(first, 512, 6004, 0))
    desktop.conversation.new_chat()
    desktop.pane.composer.set_text("a short one")
    qtbot.waitUntil(lambda: len(engine.predictions()) == 1)
    engine.say(PrefillProgress(first, 6004, 6004, 0))
    engine.say(TextChunk(first, "Yes", 1))
    qtbot.waitUntil(lambda: len(engine.predictions()) == 2)


def test_searching_finds_words_of_answers(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    say(qtbot, desktop, "a question")
    desktop.conversation.new_chat()
    assert isinstance(desktop.engine, ScriptedEngine)
    desktop.engine.reply = ("about giraffes",)
    say(qtbot, desktop, "another one")
    desktop.window.sidebar.search_field.setText("giraffe")
    qtbot.waitUntil(lambda: titles(desktop) == ["another one"])


def test_a_suggestion_starts_a_chat(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    desktop.pane.empty_state.suggestions[0].click()
    qtbot.waitUntil(lambda: len(desktop.conversation.messages) == 2 and not desktop.conversation.state.busy)


def test_an_unwritable_home_is_said_and_the_chat_goes_on(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    desktop = open_desktop(home=tmp_path / "file" / "home")
    qtbot.waitUntil(desktop.pane.store_banner.isVisible)
    qtbot.waitUntil(lambda: "memory" in desktop.pane.store_banner.text)
    assert say(qtbot, desktop, "still there?") == "Pages hold tokens."
    desktop.conversation.new_chat()
    desktop.window.sidebar.chosen.emit(desktop.chats.rows[0].chat.id)
    qtbot.waitUntil(lambda: len(desktop.conversation.messages) == 2)


def test_a_newer_database_is_said_and_left_alone(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    path = Paths(tmp_path / "home").chats
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    desktop = open_desktop(home=tmp_path / "home")
    qtbot.waitUntil(lambda: "newer" in desktop.pane.store_banner.text)
    say(qtbot, desktop, "hello")
    desktop.close()
    assert path.read_bytes() == before


def test_a_damaged_database_is_said_and_replaced(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    path = Paths(tmp_path / "home").chats
    path.parent.mkdir()
    path.write_bytes(b"rubbish" * 1000)
    desktop = open_desktop(home=tmp_path / "home")
    qtbot.waitUntil(lambda: "damaged" in desktop.pane.store_banner.text)
    say(qtbot, desktop, "hello")


def test_a_broken_settings_file_is_said(open_desktop: OpenDesktop, tmp_path: Path) -> None:
    path = Paths(tmp_path / "home").settings
    path.parent.mkdir()
    path.write_text("{not json")
    desktop = open_desktop(home=tmp_path / "home")
    assert "settings.json" in desktop.pane.store_banner.text


def test_the_theme_and_the_last_model_are_remembered(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    home, model = tmp_path / "home", tmp_path / "model"
    model.mkdir()
    desktop = open_desktop(home=home, model=model)
    desktop.pane.settings_wanted.emit()
    dialog = desktop.window.findChild(QDialog)
    assert isinstance(dialog, SettingsDialog)
    dialog.look.button("dark").click()
    dialog.accept()
    assert desktop.appearance.theme.dark
    desktop.close()
    assert json.loads(Paths(home).settings.read_text()) == {"last_model": str(model), "theme": "dark"}


def pins_since_load(desktop: Desktop) -> list[Command]:
    """The pins told since the last model was asked for."""
    assert isinstance(desktop.engine, ScriptedEngine)
    commands = desktop.engine.commands
    last = max(place for place, command in enumerate(commands) if isinstance(command, LoadModel))
    return list(dict.fromkeys(command for command in commands[last:] if isinstance(command, Pin)))


def loads(desktop: Desktop) -> list[LoadModel]:
    """The models that were asked for, the last one last."""
    assert isinstance(desktop.engine, ScriptedEngine)
    return [command for command in desktop.engine.commands if isinstance(command, LoadModel)]


def test_pins_are_told_to_every_engine_and_model(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    first = open_desktop(home=tmp_path / "home")
    say(qtbot, first, "keep this")
    chat = first.conversation.chat
    assert chat
    first.window.sidebar.list.pin_wanted.emit(chat.id, True)
    say(qtbot, first, "it goes on, and stays pinned")
    first.close()
    again = open_desktop(home=tmp_path / "home")
    qtbot.waitUntil(lambda: pins_since_load(again) == [Pin(chat.id, True)])
    again.models.open("/models/another")
    qtbot.waitUntil(lambda: loads(again)[-1].path == "/models/another")
    qtbot.waitUntil(lambda: pins_since_load(again) == [Pin(chat.id, True)])


def test_a_pinned_chat_that_is_brought_back_is_pinned(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    say(qtbot, desktop, "keep this")
    chat = desktop.conversation.chat
    assert chat
    assert isinstance(desktop.engine, ScriptedEngine)
    desktop.window.sidebar.list.pin_wanted.emit(chat.id, True)
    desktop.window.sidebar.list.deleted.emit(chat.id)
    assert desktop.engine.commands[-1] == Forget(chat.id)
    assert desktop.pins.pinned == frozenset()
    desktop.window.toast._button.click()
    assert desktop.engine.commands[-1] == Pin(chat.id, True)
    assert desktop.pins.pinned == {chat.id}


def test_recent_models_come_back(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    open_desktop(home=tmp_path / "home", model=Path("/models/first")).close()
    again = open_desktop(home=tmp_path / "home", model=Path("/models/second"))
    qtbot.waitUntil(lambda: again.models.recent == ("/models/second", "/models/first"))


@pytest.mark.parametrize("error", ["config.json is missing; choose a model folder", "<b>odd</b>"])
def test_a_model_that_fails_to_load_is_said(open_desktop: OpenDesktop, qtbot: QtBot, error: str) -> None:
    desktop = open_desktop()
    assert isinstance(desktop.engine, ScriptedEngine)
    desktop.engine.fail_loads = error
    desktop.models.open("/models/broken")
    qtbot.waitUntil(lambda: desktop.models.state.phase == "failed")
    assert desktop.pane.model_banner.isVisible()
    assert error in desktop.pane.model_banner.text
    assert not desktop.conversation.can_send
    desktop.engine.fail_loads = ""
    desktop.pane.model_banner.acted.emit()
    qtbot.waitUntil(lambda: desktop.models.state.phase == "ready")
    assert not desktop.pane.model_banner.isVisible()
    assert say(qtbot, desktop, "back again") == "Pages hold tokens."


def test_closing_ends_every_thread(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    assert isinstance(desktop.engine, ScriptedEngine)
    desktop.engine.hold_after = 1
    desktop.conversation.send("hello")
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == "streaming")
    desktop.close()
    assert not desktop.engine._thread.is_alive()
    assert not desktop.store._thread.is_alive()


def test_a_note_stands_over_the_message_field_also_where_that_grows(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop()
    toast, composer = desktop.window.toast, desktop.pane.composer
    toast.say("Kept one answer")
    place = toast.geometry()
    composer.set_text("a line\n" * 20)
    qtbot.waitUntil(lambda: toast.geometry() != place)
    assert toast.geometry().bottom() < composer.geometry().top()
    composer.set_text("")
    qtbot.waitUntil(lambda: toast.geometry() == place)
