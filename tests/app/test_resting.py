"""A model that rests, in the window: what it shows, and what brings the model back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app import text
from app.chat import prediction
from app.model_location import GUIDE
from app.wiring import Desktop
from engine import CacheReport, Engine, EngineSettings, Event, SsdSettings
from tests.app.conftest import OpenDesktop
from tests.engine.watched import restore_always
from tests.fakes.scripted_engine import ScriptedEngine

LONG = 3_600_000  # ms
RESTING = text.RESTING.format(name="tiny-chat")


def rest(qtbot: QtBot, desktop: Desktop) -> ScriptedEngine:
    """Let the scripted model rest."""
    assert isinstance(desktop.engine, ScriptedEngine)
    desktop.engine.rest()
    qtbot.waitUntil(lambda: desktop.models.state.phase == "resting")
    return desktop.engine


def ask(qtbot: QtBot, desktop: Desktop, words: str) -> None:
    """Type and send, and wait for the answer."""
    field = desktop.pane.composer.focusProxy()
    qtbot.keyClicks(field, words)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert desktop.pane.composer.text == ""
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert desktop.conversation.messages[-1].status == "complete", desktop.conversation.messages[-1].error


def test_it_says_so_and_a_message_brings_it_back(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    rest(qtbot, desktop)
    assert desktop.pane.status_line.words == RESTING
    shown: list[str] = []
    desktop.models.state_changed.connect(lambda _: shown.append(desktop.pane.status_line.words))
    ask(qtbot, desktop, "What is a page?")
    assert desktop.models.state.phase == "ready"
    assert "Opening tiny-chat…" in shown
    assert "tok/s" in desktop.pane.status_line.words


def test_words_that_lie_about_let_it_rest_and_writing_brings_it_back(
    open_desktop: OpenDesktop, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "PAUSE_MS", 20)
    desktop = open_desktop()
    qtbot.keyClicks(desktop.pane.composer.focusProxy(), "What is")
    qtbot.waitUntil(lambda: desktop.prediction.words != "")
    engine = rest(qtbot, desktop)
    before = len(engine.predictions())
    qtbot.waitUntil(lambda: not desktop.prediction._pause.isActive())
    assert len(engine.predictions()) == before
    assert desktop.pane.status_line.words == RESTING
    qtbot.keyClicks(desktop.pane.composer.focusProxy(), " a page?")
    qtbot.waitUntil(lambda: desktop.models.state.phase == "ready")
    assert len(engine.predictions()) > before
    assert desktop.pane.composer.text == "What is a page?"


def test_one_that_others_leave_no_room_says_what_brings_it_back(
    open_desktop: OpenDesktop, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "PAUSE_MS", 20)
    desktop = open_desktop()
    rest(qtbot, desktop).is_crowded = True
    field, said = desktop.pane.composer.focusProxy(), desktop.pane.status_line
    assert said.words == RESTING
    qtbot.keyClicks(field, "What is a page?")
    qtbot.waitUntil(lambda: said.words == text.RESTING_CROWDED.format(name="tiny-chat"))
    assert desktop.models.state.phase == "resting"
    desktop.pane.composer.set_text("")
    assert said.words == RESTING
    ask(qtbot, desktop, "What is a page?")
    assert "tok/s" in said.words


def test_one_that_cannot_come_back_says_why_and_keeps_the_question(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop()
    rest(qtbot, desktop).fail_loads = "/models/tiny-chat is gone"
    assert desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: desktop.models.state.error != "")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert desktop.models.state.phase == "resting"  # the next message tries again
    assert desktop.conversation.can_send
    question, answer = desktop.conversation.messages
    assert question.text == "What is a page?"
    assert (answer.status, answer.error) == ("failed", "/models/tiny-chat is gone")
    assert "is gone" in desktop.pane.model_banner.text


def test_the_real_one_comes_back_with_what_it_had_computed(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    monkeypatch.setattr(prediction, "PAUSE_MS", LONG)  # else it may come back while the message is typed
    ssd = SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0)
    settings = EngineSettings(kv_bytes=64 << 20, ssd=ssd, cache=tmp_path / "cache", unload_after=1.0)
    phases: list[str] = []
    reports: list[CacheReport] = []

    def make(emit: Callable[[Event], None]) -> Engine:
        def note(event: Event) -> None:
            if isinstance(event, CacheReport):
                reports.append(event)
            emit(event)

        return Engine(note, settings)

    desktop = open_desktop(make, None, tmp_path / "home", wait=False)
    desktop.models.state_changed.connect(lambda state: phases.append(state.phase))
    desktop.models.open(str(GUIDE))
    qtbot.waitUntil(lambda: desktop.models.state.phase == "ready")
    ask(qtbot, desktop, "What is a page?")
    qtbot.waitUntil(lambda: desktop.models.state.phase == "resting")
    assert desktop.chats.memory
    assert all(memory.memory_bytes == 0 < memory.ssd_bytes for memory in desktop.chats.memory.values())
    before = len(phases)
    ask(qtbot, desktop, "And what is the KV cache?")
    assert list(dict.fromkeys(phases[before:]))[:2] == ["loading", "ready"]
    assert [report.restored_tokens > 0 for report in reports] == [False, True]
