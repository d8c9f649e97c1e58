"""A refusal by the real engine: each way out that the window offers is a button that lets the answer come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.answer_view import AnswerView
from app.chat.user_message_view import UserMessageView
from app.engine_like import MakeEngine
from app.library.library import open_library
from app.library.look import look
from app.library.lookup import settings_at
from app.library.records import ModelSettings
from app.model_location import GUIDE
from app.models.model_settings_dialog import ModelSettingsDialog
from app.paths import Paths
from app.settings import SettingsFile
from app.text import ANSWER_FIRST, CUT_MEMORY, OUTDATED, PLACEHOLDER_NONE
from app.wiring import Desktop
from engine import Engine, EngineSettings, inspect_model
from tests.app.conftest import OpenDesktop

PAGES = 8
SENTENCE = "Please tell me everything that you know about pages, chats, models and settings. "
LONG = SENTENCE * 5


@pytest.fixture
def desktop(open_desktop: OpenDesktop, tmp_path: Path) -> Desktop:
    return open_desktop(few_pages(tmp_path), GUIDE, tmp_path / "home")


def few_pages(folder: Path, bits: int | None = None) -> MakeEngine:
    """A real engine whose budget is PAGES pages of the guide's as computed."""
    budget = PAGES * EngineSettings().page_size * inspect_model(GUIDE).kv_bytes_per_token
    settings = EngineSettings(kv_bytes=budget, kv_bits=bits, cache=folder / "cache")
    return lambda emit: Engine(emit, settings)


def ended(qtbot: QtBot, desktop: Desktop) -> str:
    """Wait for the answer; returns how it ended."""
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    return desktop.conversation.messages[-1].status


def pinned_chat(qtbot: QtBot, desktop: Desktop, question: str = "What is a page?") -> str:
    """A chat that keeps some of the few pages."""
    assert desktop.conversation.send(question)
    ended(qtbot, desktop)
    chat = desktop.conversation.chat
    assert chat
    desktop.pins.pin(chat.id, True)
    desktop.conversation.new_chat()
    return chat.id


def way(qtbot: QtBot, desktop: Desktop, first_word: str) -> QPushButton:
    """The button under the last answer's error whose words begin like this, once it is there."""

    def offered() -> list[QPushButton]:
        view = desktop.pane.transcript._stack.last
        assert isinstance(view, AnswerView)
        ways = view._body.error.ways
        return [button for button in ways if button.isVisible() and button.text().startswith(first_word)]

    qtbot.waitUntil(lambda: bool(offered()))
    return offered()[0]


def test_letting_go_of_a_pinned_chat(desktop: Desktop, qtbot: QtBot) -> None:
    pinned = pinned_chat(qtbot, desktop)
    desktop.pane.composer.set_text(LONG)
    said = desktop.pane.status_line
    qtbot.waitUntil(lambda: "needs" in said.words)
    warned = desktop.prediction.words
    assert desktop.conversation.send(LONG)
    assert ended(qtbot, desktop) == "failed"
    assert desktop.conversation.messages[-1].error == warned, "it was said before"
    assert "beside the chats you keep" in warned
    assert "What is a page?" in way(qtbot, desktop, "Let go").text()
    qtbot.mouseClick(way(qtbot, desktop, "Let go"), Qt.MouseButton.LeftButton)
    assert pinned not in desktop.pins.pinned
    assert ended(qtbot, desktop) in ("complete", "length")
    assert desktop.conversation.messages[-1].text


def test_what_helps_only_together_is_one_button(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    settings = EngineSettings(kv_pages=PAGES, kv_bits=8, cache=tmp_path / "cache")
    desktop = open_desktop(lambda emit: Engine(emit, settings), GUIDE, tmp_path / "home")
    pinned = {pinned_chat(qtbot, desktop), pinned_chat(qtbot, desktop, "Where are my chats saved?")}
    assert desktop.pins.pinned == pinned
    assert desktop.conversation.send(SENTENCE * 6, 4)
    assert ended(qtbot, desktop) == "failed"
    only = way(qtbot, desktop, "Ask for one answer, and let go")
    assert "of 2 chats: “" in only.accessibleName()
    assert only.parentWidget().findChildren(QPushButton) == [only]
    qtbot.mouseClick(only, Qt.MouseButton.LeftButton)
    assert not desktop.pins.pinned
    assert ended(qtbot, desktop) in ("complete", "length")


def test_what_helps_only_with_a_shorter_message_opens_its_editor(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    settings = EngineSettings(kv_pages=PAGES, kv_bits=8, cache=tmp_path / "cache")
    desktop = open_desktop(lambda emit: Engine(emit, settings), GUIDE, tmp_path / "home")
    pinned_chat(qtbot, desktop)
    pinned_chat(qtbot, desktop, "Where are my chats saved?")
    assert desktop.conversation.send(SENTENCE * 12, 4)
    assert ended(qtbot, desktop) == "failed"
    qtbot.mouseClick(way(qtbot, desktop, "Ask for one answer, and shorten"), Qt.MouseButton.LeftButton)
    question = desktop.pane.transcript._stack.views[-2]
    assert isinstance(question, UserMessageView)
    assert question.editor
    question.editor.sent.emit("hi")
    assert len(desktop.conversation.together(desktop.conversation.messages[-1].id)) == 1
    assert ended(qtbot, desktop) in ("complete", "length")


def test_asking_for_fewer_answers(desktop: Desktop, qtbot: QtBot) -> None:
    assert desktop.conversation.send(LONG, 4)
    assert ended(qtbot, desktop) == "failed"
    failed = desktop.conversation.messages[-1].id
    assert desktop.conversation.versions(failed).count == 1
    qtbot.mouseClick(way(qtbot, desktop, "Ask for"), Qt.MouseButton.LeftButton)
    assert ended(qtbot, desktop) in ("complete", "length")
    assert desktop.conversation.messages[-1].text


def test_shortening_opens_the_editor_and_storing_in_bits_is_a_setting(
    desktop: Desktop, qtbot: QtBot, tmp_path: Path
) -> None:
    assert desktop.conversation.send(LONG * 3)
    assert ended(qtbot, desktop) == "failed"
    qtbot.mouseClick(way(qtbot, desktop, "Shorten"), Qt.MouseButton.LeftButton)
    question = desktop.pane.transcript._stack.views[-2]
    assert isinstance(question, UserMessageView)
    assert question.editor
    assert question.editor.text == desktop.conversation.messages[0].text
    qtbot.mouseClick(way(qtbot, desktop, "Store"), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "8 bits" in desktop.window.toast.text)
    file = SettingsFile(tmp_path / "home" / "settings.json")
    qtbot.waitUntil(lambda: file.load().settings.kv_cache == "8")


def refused_and_shortened(qtbot: QtBot, desktop: Desktop) -> UserMessageView:
    """Four answers were asked for and refused, and the editor is open of what was asked."""
    assert desktop.conversation.send(LONG, 4)
    assert ended(qtbot, desktop) == "failed"
    qtbot.mouseClick(way(qtbot, desktop, "Shorten"), Qt.MouseButton.LeftButton)
    question = desktop.pane.transcript._stack.views[-2]
    assert isinstance(question, UserMessageView)
    return question


def test_a_message_that_is_shortened_is_answered_in_as_many_ways_as_it_was_asked_for(
    desktop: Desktop, qtbot: QtBot
) -> None:
    question = refused_and_shortened(qtbot, desktop)
    assert question.editor
    said = desktop.pane.status_line
    qtbot.waitUntil(lambda: "This needs" in said.words)
    assert desktop.conversation.messages[-1].error in said.words, "of as many answers"
    question.editor.focusProxy().setPlainText(SENTENCE)
    qtbot.waitUntil(lambda: "cached" in said.words)
    question.editor.sent.emit(SENTENCE)
    assert len(desktop.conversation.together(desktop.conversation.messages[-1].id)) == 4
    assert ended(qtbot, desktop) != "failed"


def test_a_message_that_is_to_be_shortened_and_stays_is_changed_as_any_other(
    desktop: Desktop, qtbot: QtBot
) -> None:
    question = refused_and_shortened(qtbot, desktop)
    question.stop_editing()
    qtbot.mouseClick(question.edit_button, Qt.MouseButton.LeftButton)
    assert question.editor
    question.editor.sent.emit(SENTENCE)
    assert len(desktop.conversation.together(desktop.conversation.messages[-1].id)) == 1


@pytest.mark.parametrize("phase", ["none", "failed"])
def test_without_a_model_a_way_leads_as_far_as_it_can_and_says_what_is_missing(
    desktop: Desktop, qtbot: QtBot, phase: str
) -> None:
    pinned, toast = pinned_chat(qtbot, desktop), desktop.window.toast
    assert desktop.conversation.send(LONG)
    assert ended(qtbot, desktop) == "failed"
    if phase == "none":
        desktop.models.unload(str(GUIDE))
    else:
        desktop.models.open("/models/gone")
    qtbot.waitUntil(lambda: desktop.models.state.phase == phase)
    qtbot.mouseClick(way(qtbot, desktop, "Let go"), Qt.MouseButton.LeftButton)
    assert pinned not in desktop.pins.pinned
    assert (toast.isVisible(), toast.text) == (True, PLACEHOLDER_NONE)
    qtbot.mouseClick(way(qtbot, desktop, "Store"), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "8 bits" in toast.text)
    qtbot.mouseClick(way(qtbot, desktop, "Shorten"), Qt.MouseButton.LeftButton)
    question = desktop.pane.transcript._stack.views[-2]
    assert isinstance(question, UserMessageView)
    assert question.editor
    desktop.models.open(str(GUIDE))
    qtbot.waitUntil(lambda: desktop.models.state.phase == "ready")
    qtbot.mouseClick(way(qtbot, desktop, "Let go"), Qt.MouseButton.LeftButton)
    assert ended(qtbot, desktop) in ("complete", "length")


def test_while_another_answer_is_on_its_way_a_way_says_so(desktop: Desktop, qtbot: QtBot) -> None:
    pinned_chat(qtbot, desktop)
    assert desktop.conversation.send(LONG)
    assert ended(qtbot, desktop) == "failed"
    let_go = way(qtbot, desktop, "Let go")
    assert desktop.conversation.send("hi")
    qtbot.mouseClick(let_go, Qt.MouseButton.LeftButton)
    assert desktop.window.toast.text == ANSWER_FIRST


def test_a_chat_that_fills_memory_is_not_told_to_shorten_two_letters(desktop: Desktop, qtbot: QtBot) -> None:
    conversation = desktop.conversation
    status, message = "", SENTENCE * 4
    while status != "failed":
        assert conversation.send(message)
        status, message = ended(qtbot, desktop), "hi"
    assert len(conversation.messages) > 2
    assert conversation.messages[-1].error.endswith("; start a new chat to go on")
    assert not any("Shorten" in words for words in conversation.ways_out(conversation.messages[-1].id))
    conversation.new_chat()
    assert conversation.send("hi")
    assert ended(qtbot, desktop) == "complete"


def test_storing_in_bits_holds_for_a_model_with_a_kv_cache_of_its_own(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    SettingsFile(Paths(home).settings).update(lambda settings: replace(settings, kv_cache="8"))
    with open_library(Paths(home)) as library:
        library.refresh(look)
        library.save_settings(library.named("guide"), ModelSettings(context=2000, kv_cache="full"))
    desktop = open_desktop(few_pages(tmp_path, 8), GUIDE, home)
    assert desktop.conversation.send(LONG * 3)
    assert ended(qtbot, desktop) == "failed"
    qtbot.mouseClick(way(qtbot, desktop, "Store"), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "8 bits" in desktop.window.toast.text)
    assert settings_at(GUIDE, Paths(home)) == ModelSettings(context=2000, kv_cache="8")
    with qtbot.waitSignal(desktop.models.opened):
        desktop.window.toast._button.click()
    assert desktop.conversation.regenerate(desktop.conversation.messages[-1].id)
    assert ended(qtbot, desktop) in ("complete", "length")


def test_an_answer_that_has_no_room_beside_pinned_chats_stays_as_far_as_it_came(
    desktop: Desktop, qtbot: QtBot
) -> None:
    """The prompt has room beside what is pinned, and a long answer has not."""
    pinned_chat(qtbot, desktop)
    for sentences in range(1, 6):
        desktop.conversation.new_chat()
        assert desktop.conversation.send(SENTENCE * sentences)
        if ended(qtbot, desktop) == "length":
            break
    last = desktop.conversation.messages[-1]
    assert last.text
    assert last.error == CUT_MEMORY


def test_a_context_that_is_set_too_small_leads_to_its_setting(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with open_library(Paths(home)) as library:
        library.refresh(look)
        library.save_settings(library.named("guide"), ModelSettings(context=40))
    desktop = open_desktop(lambda emit: Engine(emit, EngineSettings(cache=tmp_path / "cache")), GUIDE, home)
    assert desktop.conversation.send(LONG)
    assert ended(qtbot, desktop) == "failed"
    assert "context is set to 40" in desktop.conversation.messages[-1].error
    qtbot.mouseClick(way(qtbot, desktop, "Allow more"), Qt.MouseButton.LeftButton)
    dialogs = desktop.window.findChildren
    qtbot.waitUntil(lambda: bool(dialogs(ModelSettingsDialog)))
    (dialog,) = dialogs(ModelSettingsDialog)
    field = dialog.field("context")
    assert (dialog.windowTitle(), field.selectedText()) == ("Settings of guide", "40")
    field.setText("1000")
    qtbot.mouseClick(dialog.save, Qt.MouseButton.LeftButton)
    desk = desktop.models_door.desk
    assert desk
    qtbot.waitUntil(lambda: desk.page.toast.text == OUTDATED.format(name="guide"))
    with qtbot.waitSignal(desktop.models.opened):  # until then it is ready as it was loaded before
        desktop.models.open(str(GUIDE))
    assert desktop.conversation.regenerate(desktop.conversation.messages[-1].id)
    assert ended(qtbot, desktop) in ("complete", "length")


def test_the_setting_of_a_model_that_is_gone_is_said_not_to_be_there(desktop: Desktop, qtbot: QtBot) -> None:
    desktop.models_door.show_context("/models/gone")
    qtbot.waitUntil(lambda: desktop.models_door.desk is not None)
    desk = desktop.models_door.desk
    assert desk
    qtbot.waitUntil(lambda: "not among" in desk.page.banner.text)
