"""The window's requests are in the history, as its engine told them, and those cut short by closing too."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.history.records import RequestRecord
from app.history.requests import RequestStore
from app.history.schema import HISTORY
from app.history.spans import Span, session_span
from app.paths import Paths
from app.store.database import open_database
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop
from tests.fakes.scripted_engine import ScriptedEngine

ALL = Span((0.0, 1e12))


def ask(qtbot: QtBot, desktop: Desktop) -> list[RequestRecord]:
    """This session's requests, as the window's own thread gets them."""
    answers: list[Sequence[RequestRecord]] = []
    onlookers = desktop.onlookers
    span = session_span(onlookers.recorder.session, onlookers.recorder.seconds)
    onlookers.history.ask(lambda store: store.latest(span), answers.append)
    qtbot.waitUntil(lambda: bool(answers))
    return list(answers[0])


def on_disk(path: Path) -> list[RequestRecord]:
    with closing(open_database(path, HISTORY).connection) as connection:
        return RequestStore(connection).latest(ALL)


def test_what_was_answered_and_what_failed_is_recorded(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    assert isinstance(desktop.engine, ScriptedEngine)
    assert desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    desktop.engine.fail_with = "the prompt is too long"
    assert desktop.conversation.send("and now?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    failed, answered = ask(qtbot, desktop)
    chat = desktop.conversation.chat
    assert chat
    assert (answered.client, answered.chat, answered.model) == ("window", chat.id, "/models/tiny-chat")
    assert (answered.outcome, answered.reason, answered.answer_tokens) == ("finished", "stop", 4)
    assert (answered.ttft_ms, answered.decode_tps) == (85.0, 62.0)
    assert (failed.outcome, failed.error) == ("failed", "the prompt is too long")
    assert 0 < answered.since < failed.since


def test_what_closing_cuts_short_is_recorded_as_stopped(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    desktop = open_desktop(home=tmp_path / "home")
    assert isinstance(desktop.engine, ScriptedEngine)
    desktop.engine.hold_after = 1
    assert desktop.conversation.send("hello")
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == "streaming")
    desktop.close()
    (one,) = on_disk(Paths(tmp_path / "home").history)
    assert (one.outcome, one.reason, one.answer_tokens) == ("stopped", "cancelled", 1)


def test_a_newer_history_is_said_and_left_alone(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    path = Paths(tmp_path / "home").history
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(HISTORY.migrations) + 1}")
    before = path.read_bytes()
    desktop = open_desktop(home=tmp_path / "home")
    qtbot.waitUntil(lambda: "newer" in desktop.pane.store_banner.text)
    assert desktop.conversation.send("hello")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert len(ask(qtbot, desktop)) == 1
    desktop.close()
    assert path.read_bytes() == before
