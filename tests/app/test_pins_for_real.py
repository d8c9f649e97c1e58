"""A pinned chat with the real engine and the guide: its pages stay where others would have taken them.

The engine forgets pins with the model; the window keeps them, across models and runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app import text
from app.model_location import GUIDE
from app.wiring import Desktop
from engine import Engine, EngineSettings, Event
from tests.app.conftest import OpenDesktop
from tests.fakes.random_model import write_random_model

PAGES = 8
OTHERS = ("How do I open another model?", "Who can read my chats?", "Where are my chats saved?")


def say(qtbot: QtBot, desktop: Desktop, question: str) -> str:
    """Ask in a new chat, wait for the answer, and return the chat's id."""
    desktop.conversation.new_chat()
    assert desktop.conversation.send(question)
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert desktop.conversation.messages[-1].status == "complete", desktop.conversation.messages[-1].error
    chat = desktop.conversation.chat
    assert chat
    rest(qtbot, desktop)
    assert chat.id in desktop.chats.memory
    return chat.id


def rest(qtbot: QtBot, desktop: Desktop) -> None:
    """Wait until the window knows where chats lie: it is told that before what a draft would find."""
    desktop.prediction.draft("And then?")
    qtbot.waitUntil(lambda: desktop.prediction.words != "")
    desktop.prediction.draft("")
    assert desktop.status.status.writing == 0


def held(desktop: Desktop, chat_id: str) -> int:
    """Bytes of the chat in memory."""
    memory = desktop.chats.memory.get(chat_id)
    return memory.memory_bytes if memory else 0


@pytest.mark.parametrize("pinned", [True, False])
def test_the_pages_of_a_pinned_chat_stay(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, pinned: bool
) -> None:
    desktop = open_desktop(
        lambda emit: Engine(emit, EngineSettings(kv_pages=PAGES)), GUIDE, tmp_path / "home"
    )
    first = say(qtbot, desktop, "What is a page?")
    before = held(desktop, first)
    if pinned:
        menu = desktop.window.sidebar.list.menu_for(desktop.window.sidebar.list.model().index(0, 0))
        next(action for action in menu.actions() if action.text() == text.PIN).trigger()
    for question in OTHERS:
        say(qtbot, desktop, question)
    assert before > 0
    assert (held(desktop, first) == before) == pinned


@pytest.mark.parametrize("by", ["another model", "a restart"])
def test_a_pin_outlives_the_model_and_the_run(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, by: str
) -> None:
    def make(emit: Callable[[Event], None]) -> Engine:
        return Engine(emit, EngineSettings(kv_pages=PAGES))

    desktop = open_desktop(make, GUIDE, tmp_path / "home")
    first = say(qtbot, desktop, "What is a page?")
    desktop.pins.pin(first, True)
    if by == "a restart":
        desktop.close()
        desktop = open_desktop(make, GUIDE, tmp_path / "home")
        qtbot.waitUntil(lambda: first in desktop.pins.pinned)
    else:
        other = write_random_model(tmp_path / "other")
        for model in (other, GUIDE):
            desktop.models.open(str(model))
            qtbot.waitUntil(lambda: desktop.models.state.phase == "ready")
    qtbot.waitUntil(lambda: desktop.chats.find(first) is not None)
    desktop.window.sidebar.chosen.emit(first)
    qtbot.waitUntil(lambda: len(desktop.conversation.messages) == 2)
    assert desktop.conversation.regenerate(desktop.conversation.messages[-1].id)
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    rest(qtbot, desktop)
    before = held(desktop, first)
    assert before > 0
    for question in OTHERS:
        say(qtbot, desktop, question)
    assert held(desktop, first) == before


def test_what_is_written_is_predicted_anew_when_a_pin_comes_or_goes(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    desktop = open_desktop(
        lambda emit: Engine(emit, EngineSettings(kv_pages=PAGES)), GUIDE, tmp_path / "home"
    )
    first = say(qtbot, desktop, "What is a page?")
    desktop.pins.pin(first, True)
    desktop.conversation.new_chat()
    desktop.pane.composer.set_text("page " * 6 * 16)
    qtbot.waitUntil(lambda: "beside the chats you keep in memory" in desktop.pane.status_line.words)
    desktop.pins.pin(first, False)
    qtbot.waitUntil(lambda: "tokens cached" in desktop.pane.status_line.words)
    desktop.pins.pin(first, True)
    qtbot.waitUntil(lambda: "beside the chats you keep in memory" in desktop.pane.status_line.words)
    desktop.chats.delete(first)
    qtbot.waitUntil(lambda: "tokens cached" in desktop.pane.status_line.words)
