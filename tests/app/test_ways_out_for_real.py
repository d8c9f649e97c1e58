"""A refusal by the real engine: each way out that the window offers is a button that lets the answer come."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.answer_view import AnswerView
from app.chat.user_message_view import UserMessageView
from app.model_location import GUIDE
from app.settings import SettingsFile
from app.wiring import Desktop
from engine import Engine, EngineSettings
from tests.app.conftest import OpenDesktop

PATIENCE = 30_000  # ms
PAGES = 8
SENTENCE = "Please tell me everything that you know about pages, chats, models and settings. "
LONG = SENTENCE * 5


@pytest.fixture
def desktop(open_desktop: OpenDesktop, tmp_path: Path) -> Desktop:
    settings = EngineSettings(kv_pages=PAGES, cache=tmp_path / "cache")
    return open_desktop(lambda emit: Engine(emit, settings), GUIDE, tmp_path / "home")


def ended(qtbot: QtBot, desktop: Desktop) -> str:
    """Wait for the answer; returns how it ended."""
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy, timeout=PATIENCE)
    return desktop.conversation.messages[-1].status


def pinned_chat(qtbot: QtBot, desktop: Desktop) -> str:
    """A chat that keeps some of the few pages."""
    assert desktop.conversation.send("What is a page?")
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

    qtbot.waitUntil(lambda: bool(offered()), timeout=PATIENCE)
    return offered()[0]


def test_letting_go_of_a_pinned_chat(desktop: Desktop, qtbot: QtBot) -> None:
    pinned = pinned_chat(qtbot, desktop)
    assert desktop.conversation.send(LONG)
    assert ended(qtbot, desktop) == "failed"
    assert "What is a page?" in way(qtbot, desktop, "Let go").text()
    qtbot.mouseClick(way(qtbot, desktop, "Let go"), Qt.MouseButton.LeftButton)
    assert pinned not in desktop.pins.pinned
    assert ended(qtbot, desktop) in ("complete", "length")
    assert desktop.conversation.messages[-1].text


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
    assert "8 bits" in desktop.window.toast.text
    file = SettingsFile(tmp_path / "home" / "settings.json")
    qtbot.waitUntil(lambda: file.load().settings.kv_cache == "8", timeout=PATIENCE)


def test_an_answer_within_a_smaller_context(desktop: Desktop, qtbot: QtBot) -> None:
    """The prompt has room beside what is pinned, and a long answer has not."""
    pinned_chat(qtbot, desktop)
    for sentences in range(1, 6):
        desktop.conversation.new_chat()
        assert desktop.conversation.send(SENTENCE * sentences)
        if ended(qtbot, desktop) == "failed":
            break
    assert desktop.conversation.messages[-1].text  # it began, and could not go on
    qtbot.mouseClick(way(qtbot, desktop, "Answer within"), Qt.MouseButton.LeftButton)
    assert ended(qtbot, desktop) == "length"
