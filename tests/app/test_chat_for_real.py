"""The main job, end to end: the real window, engine and guide, driven by keys and clicks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.answer_view import AnswerView
from app.model_location import GUIDE
from app.wiring import Desktop
from engine import Engine, EngineSettings, Event, TextChunk
from tests.app.conftest import OpenDesktop

PATIENCE = 60.0  # seconds
KV_BYTES = 64 << 20


class Gate:
    """Holds the engine's thread at a word while it is shut: a test can act half-way through an answer."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_open, self._let_by = True, 0

    def shut(self) -> None:
        """Hold it at the next word."""
        self._is_open, self._let_by = False, 0

    def open(self) -> None:
        """Let it go on."""
        with self._changed:
            self._is_open = True
            self._changed.notify()

    def let_one_by(self) -> None:
        """Let it go on to the next word."""
        with self._changed:
            self._let_by += 1
            self._changed.notify()

    def behind(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        """`emit`, waiting at the gate after each piece of text."""

        def emit_and_wait(event: Event) -> None:
            emit(event)
            if isinstance(event, TextChunk) and event.text:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_open or self._let_by, PATIENCE)
                    self._let_by = max(0, self._let_by - 1)

        return emit_and_wait


def with_engine(open_desktop: OpenDesktop, model: Path, home: Path, gate: Gate | None = None) -> Desktop:
    def make(emit: Callable[[Event], None]) -> Engine:
        return Engine(gate.behind(emit) if gate else emit, EngineSettings(kv_bytes=KV_BYTES))

    return open_desktop(make, model, home)


def type_and_send(qtbot: QtBot, desktop: Desktop, words: str) -> None:
    field = desktop.pane.composer.focusProxy()
    qtbot.keyClicks(field, words)
    qtbot.keyClick(field, Qt.Key.Key_Return)


def last_answer(desktop: Desktop) -> str:
    """The newest answer as it is on the screen."""
    newest = desktop.conversation.messages[-1].id
    views = desktop.pane.transcript.findChildren(AnswerView)
    return next((view.message.text for view in views if view.message.id == newest), "")


def test_a_chat_streams_stops_and_survives_a_restart(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    gate = Gate()
    desktop = with_engine(open_desktop, GUIDE, home, gate)
    assert desktop.models.state.phase == "ready", desktop.models.state.error

    seen = [""]
    gate.shut()
    type_and_send(qtbot, desktop, "Which keyboard shortcuts are there?")
    assert desktop.pane.composer.text == ""
    for _ in range(3):  # words are shown as they come: the engine waits for the window after each
        qtbot.waitUntil(lambda: last_answer(desktop) != seen[-1])
        assert desktop.conversation.state.busy
        seen.append(last_answer(desktop))
        gate.let_one_by()
    gate.open()
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    first = desktop.conversation.messages[-1]
    assert first.status == "complete"
    qtbot.waitUntil(lambda: last_answer(desktop) == first.text)
    assert all(longer.startswith(shorter) for shorter, longer in pairwise([*seen, first.text]))
    assert first.tokens
    assert "tok/s" in desktop.pane.status_line.words

    gate.shut()
    type_and_send(qtbot, desktop, "What does the status line show?")
    qtbot.waitUntil(lambda: last_answer(desktop) != "")
    qtbot.mouseClick(desktop.pane.composer.button, Qt.MouseButton.LeftButton)
    assert desktop.conversation.state.phase == "stopping"
    gate.open()
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    stopped = desktop.conversation.messages[-1]
    assert stopped.status == "stopped"
    assert stopped.text
    desktop.close()

    again = with_engine(open_desktop, GUIDE, home)
    qtbot.waitUntil(lambda: bool(again.chats.rows))
    assert [row.chat.title for row in again.chats.rows] == ["Which keyboard shortcuts are there?"]
    again.window.sidebar.list.chosen.emit(again.chats.rows[0].chat.id)
    qtbot.waitUntil(lambda: len(again.conversation.messages) == 4)
    assert [message.text for message in again.conversation.messages][1::2] == [first.text, stopped.text]
    qtbot.waitUntil(lambda: last_answer(again) == stopped.text)


def test_a_broken_model_is_said_and_the_engine_goes_on(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    desktop = with_engine(open_desktop, broken, tmp_path / "home")
    assert desktop.models.state.phase == "failed"
    banner = desktop.pane.model_banner
    assert banner.isVisible()
    assert "config.json" in banner.text
    banner.acted.emit()
    qtbot.waitUntil(lambda: desktop.models.state.phase == "ready")
    assert not banner.isVisible()


def test_a_prompt_beyond_the_context_is_one_line_and_the_next_one_works(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    desktop = with_engine(open_desktop, GUIDE, tmp_path / "home")
    assert desktop.conversation.send("page " * 20_000)
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    failed = desktop.conversation.messages[-1]
    assert failed.status == "failed"
    assert "\n" not in failed.error
    assert desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert desktop.conversation.messages[-1].status == "complete"
