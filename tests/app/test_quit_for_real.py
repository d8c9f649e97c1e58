"""Quitting in the midst of an answer, with the real window, engine and guide: what the next start finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app import text
from app.chat.answer_view import AnswerView
from app.event_inbox import in_turn
from app.model_location import GUIDE
from app.paths import Paths
from engine import CacheReport, Command, Engine, EngineSettings, Event, Finished, Shutdown, SsdSettings
from tests.app.conftest import OpenDesktop
from tests.app.test_chat_for_real import Gate, last_answer
from tests.engine.watched import restore_always

WORDS = 8


class Held(Engine):
    """The engine behind a gate that is shut until it is told to end: it ends where the gate held it."""

    def __init__(self, emit: Callable[[Event], None], settings: EngineSettings, gate: Gate) -> None:
        super().__init__(gate.behind(emit), settings)
        self._gate = gate

    def submit(self, command: Command) -> None:
        super().submit(command)
        if isinstance(command, Shutdown):
            self._gate.open()


def test_an_answer_cut_short_by_quitting_goes_on_from_its_exact_tokens(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    gate, events, home = Gate(), list[Event](), tmp_path / "home"
    settings = EngineSettings(
        kv_pages=256, ssd=SsdSettings(tmp_path / "ssd", floor_bytes=0), cache=Paths(home).kernels
    )

    def recorded(emit: Callable[[Event], None]) -> Callable[[Event], None]:
        return in_turn(events.append, emit)

    desktop = open_desktop(lambda emit: Held(recorded(emit), settings, gate), GUIDE, home)
    gate.shut()
    assert desktop.conversation.send("Which keyboard shortcuts are there?")
    for _ in range(WORDS):
        seen = last_answer(desktop)
        qtbot.waitUntil(lambda seen=seen: last_answer(desktop) != seen)
        gate.let_one_by()
    desktop.close()
    (end,) = (event for event in events if isinstance(event, Finished))
    assert end.reason == "cancelled"

    again = open_desktop(lambda emit: Engine(recorded(emit), settings), GUIDE, home)
    chat = again.conversation
    qtbot.waitUntil(lambda: bool(again.chats.rows))
    again.window.sidebar.list.chosen.emit(again.chats.rows[0].chat.id)
    qtbot.waitUntil(lambda: len(chat.messages) == 2)
    question, answer = chat.messages
    assert (question.tokens, answer.tokens, answer.text) == (end.prompt_tokens, end.tokens, end.text)
    qtbot.waitUntil(lambda: last_answer(again) == end.text)
    (view,) = again.pane.transcript.findChildren(AnswerView)
    assert text.NOTE_INTERRUPTED in view.findChild(QLabel, "answerNote").text()
    assert chat.send("What is a page?")
    qtbot.waitUntil(lambda: not chat.state.busy)
    found = [event for event in events if isinstance(event, CacheReport)][-1]
    computed = len(end.prompt_tokens) + len(end.tokens) - 1  # the last one was never fed back
    assert found.cached_tokens + found.restored_tokens == computed // 16 * 16  # whole pages are stored
    assert (found.missed_from, found.reason) == (None, None)
