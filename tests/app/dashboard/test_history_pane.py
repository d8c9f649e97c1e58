"""The history's tab in the real window, over real requests and a real database."""

from __future__ import annotations

import csv
import sqlite3
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from statistics import median_low

import pytest
from PySide6.QtWidgets import QFileDialog, QTableWidget
from pytestqt.qtbot import QtBot

from app.dashboard.history_pane import HistoryPane
from app.dashboard.history_panel import ONE_ALONE
from app.dashboard.history_view_model import HistoryViewModel
from app.history.records import RequestRecord
from app.history.requests import COLUMNS, RequestStore
from app.history.schema import HISTORY
from app.paths import Paths
from app.store.database import open_database
from app.window import SIZE
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop
from tests.app.history.conftest import record
from tests.fakes.scripted_engine import ScriptedEngine

NAMES = ("Qwen3-4B", "TinyLlama-1.1B", "Phi-4-mini")


@pytest.fixture(autouse=True)
def _asks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dashboard.history_view_model.SOON_MS", 50)


def put(home: Path, requests: Iterable[RequestRecord]) -> None:
    """Record requests of earlier sessions."""
    home.mkdir()
    with closing(open_database(Paths(home).history, HISTORY).connection) as connection:
        store = RequestStore(connection)
        for request in requests:
            store.add(request)


def a_week(now: float) -> list[RequestRecord]:
    """Requests of three models: the first is quicker, and quicker still with 8 bits."""
    return [
        record(
            now - 3600 * (1 + place * 1.4),
            session="before",
            model=f"/models/{NAMES[place % 3 if place % 2 else 0]}",
            chat="",
            kv_bits=8 if place % 4 else None,
            decode_tps=90.0 - 20 * (place % 3) + place % 7,
            ttft_ms=40.0 + 11 * (place % 13),
            answer_tokens=20 + place * 3,
            outcome="failed" if place % 17 == 16 else "finished",
            error="the prompt is too long" if place % 17 == 16 else "",
        )
        for place in range(110)
    ]


def look(desktop: Desktop, qtbot: QtBot) -> HistoryPane:
    """Open the tab as a click does, in a window that is wide enough, and wait for the history's answer."""
    desktop.window.resize(*SIZE)  # there is no screen that is so wide
    desktop.pane.dashboard_wanted.emit()
    qtbot.waitUntil(lambda: bool(desktop.dashboard.desk and desktop.dashboard.desk.page.is_whole))
    assert desktop.dashboard.desk
    desktop.dashboard.desk.page.tab_button("History").click()
    (pane,) = desktop.dashboard.desk.page.findChildren(HistoryPane)
    qtbot.waitUntil(lambda: pane.history.look is not None)
    return pane


def rows(table: QTableWidget) -> list[list[str]]:
    """What a table says in the columns on show."""
    columns = [column for column in range(table.columnCount()) if not table.isColumnHidden(column)]
    found = [[table.item(row, column) for column in columns] for row in range(table.rowCount())]
    return [[item.text() if item else "" for item in line] for line in found]


def choose_file(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Answer the file dialog."""

    def answer(*_: object) -> tuple[str, str]:
        return str(path), ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", answer)


def words(pane: HistoryPane) -> dict[str, str]:
    return {key: card.words for key, card in pane.cards.items()}


def test_this_sessions_requests_are_on_screen(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    assert isinstance(desktop.engine, ScriptedEngine)
    pane = look(desktop, qtbot)
    assert pane.empty.text().startswith("Nothing was asked in this session.")
    assert pane.empty.isVisible()
    assert not pane.panel.isVisible()
    assert not pane.export_button.isEnabled()
    for question in ("What is a page?", "And a chat?"):
        assert desktop.conversation.send(question)
        qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    desktop.engine.fail_with = "the prompt is too long"
    assert desktop.conversation.send("and now?")
    qtbot.waitUntil(lambda: pane.cards["requests"].words == "3")
    answers: list[list[RequestRecord]] = []
    span = pane.history.look.span if pane.history.look else None
    assert span
    desktop.onlookers.history.ask(lambda store: store.latest(span), answers.append)
    qtbot.waitUntil(lambda: bool(answers))
    failed, second, first = answers[0]
    prompts = [one.prompt_tokens for one in answers[0]]
    assert words(pane)["tokens"] == f"{first.answer_tokens + second.answer_tokens}, {sum(prompts)} in prompts"
    assert words(pane)["ttft"] == "85 ms, median · p95 85 ms"
    assert words(pane)["decode"].startswith("62 tok/s, median")
    assert words(pane)["failed"] == "1, 33 % of all"
    chat = desktop.conversation.chat
    assert chat
    said = rows(pane.tables.latest)
    assert [line[1:3] + line[-1:] for line in said] == [
        ["tiny-chat", chat.title, outcome] for outcome in ("failed", "finished", "finished")
    ]
    assert [line[3] for line in said] == [f"{prompt:,}" for prompt in prompts]
    failure = pane.tables.latest.item(0, 8)
    assert failure
    assert failure.toolTip() == failed.error == "the prompt is too long"


def test_a_week_compared_by_model(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    requests = a_week(time.time())
    put(tmp_path / "home", requests)
    desktop = open_desktop(home=tmp_path / "home")
    pane = look(desktop, qtbot)
    pane.spans["week"].click()
    qtbot.waitUntil(lambda: pane.panel.isVisible())
    shown = pane.history.look
    assert shown
    mine = [one for one in requests if shown.span.edges[0] <= one.at < shown.span.edges[-1]]
    assert words(pane)["requests"] == str(len(mine))
    assert words(pane)["tokens"].split(",")[0] == f"{sum(one.answer_tokens for one in mine):,}".split(",")[0]
    pane.compare.choose("model")
    qtbot.waitUntil(lambda: len(pane.panel.sides) == 2)
    pane.cards["decode"].click()
    plot = pane.panel.chart.plot
    assert plot
    assert plot.names == ("Qwen3-4B", "TinyLlama-1.1B") or plot.names == ("Qwen3-4B", "Phi-4-mini")
    pane.panel.sides[1].choose("2")
    third = pane.panel.sides[1].text()
    qtbot.waitUntil(lambda: (now := pane.panel.chart.plot) is not None and now.names[1] == third)
    plot, shown = pane.panel.chart.plot, pane.history.look
    assert plot
    assert shown
    mine = [
        one for one in requests if shown.span.edges[0] <= one.at < shown.span.edges[-1]
    ]  # a day may begin
    for name, values in zip(plot.names, plot.values, strict=True):
        for (low, high), value in zip(shown.span.buckets, values, strict=True):
            speeds = [
                one.decode_tps
                for one in mine
                if one.model.endswith(name) and low <= one.at < high and one.decode_tps
            ]
            assert value == (median_low(speeds) if speeds else None)
    for name, *said in rows(pane.tables.groups):
        ours = [one for one in mine if one.model.endswith(name)]
        speeds = [one.decode_tps for one in ours if one.decode_tps]
        assert said[0] == str(len(ours))
        assert said[3] == f"{round(median_low(speeds))} tok/s"
        assert said[5] == str(sum(one.outcome == "failed" for one in ours))
    pane.panel.table_button.click()
    table = rows(pane.panel.table)
    assert [len(line) for line in table] == [3] * len(table)
    assert table[0][1] == next(f"{round(v)} tok/s" for v in reversed(plot.values[0]) if v)
    assert pane.panel.chart.words_at(pane.panel.chart.width() - 14).startswith(plot.buckets[-1])


def test_the_file_is_what_was_on_show(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    requests = [record(now - 60, model="/m/a"), record(now - 120), record(now - 40 * 86_400)]
    put(tmp_path / "home", requests)
    pane = look(open_desktop(home=tmp_path / "home"), qtbot)
    pane.spans["week"].click()
    qtbot.waitUntil(lambda: pane.export_button.isEnabled())
    path = tmp_path / "mine.csv"
    choose_file(monkeypatch, tmp_path / "mine")
    pane.export_button.click()
    qtbot.waitUntil(lambda: bool(pane.banner.text))
    assert pane.banner.text == f"2 requests of the last 7 days written to {path}"
    with path.open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    assert tuple(head) == COLUMNS
    assert {line[COLUMNS.index("id")] for line in lines} == {one.id for one in requests[:2]}
    choose_file(monkeypatch, tmp_path / "gone" / "mine.csv")
    pane.export_button.click()
    qtbot.waitUntil(lambda: "cannot be written" in pane.banner.text)


def test_one_model_is_nothing_to_compare(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    put(tmp_path / "home", [record(time.time() - 60)])
    pane = look(open_desktop(home=tmp_path / "home"), qtbot)
    pane.spans["day"].click()
    pane.compare.choose("model")
    qtbot.waitUntil(lambda: pane.panel.note.text() == ONE_ALONE)
    assert pane.panel.chart.plot
    assert pane.panel.chart.plot.names == ("tiny",)


def test_a_models_name_is_asked_on_the_historys_thread(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    now = time.time()
    put(tmp_path / "home", [record(now - 5, model="/m/a"), record(now - 4, model="/m/circle")])
    onlookers = open_desktop(home=tmp_path / "home").onlookers
    threads: set[str] = set()

    def name_of(path: str) -> str:
        threads.add(threading.current_thread().name)
        if "circle" in path:
            raise RuntimeError("Symlink loop")
        return "A"

    history = HistoryViewModel(onlookers.history, onlookers.recorder, name_of)
    history.span = "week"
    history.compare("model")
    qtbot.waitUntil(lambda: history.look is not None)
    assert (history.name_of("/m/a"), history.name_of("/m/circle")) == ("A", "circle")
    assert threads == {"mlxr-history"}


def test_nothing_is_asked_while_nobody_looks(
    open_desktop: OpenDesktop, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    desktop = open_desktop()
    pane = look(desktop, qtbot)
    desktop.window.show_chat()
    asked: list[object] = []

    def note(question: object, _: object) -> None:
        asked.append(question)

    monkeypatch.setattr(desktop.onlookers.history, "ask", note)
    assert desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    qtbot.wait(250)
    assert not asked
    assert pane.cards["requests"].words == "0"


@pytest.mark.parametrize("width", [720, 1080])
def test_the_latest_requests_fit_the_window(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, width: int
) -> None:
    put(tmp_path / "home", a_week(time.time()))
    desktop = open_desktop(home=tmp_path / "home")
    pane = look(desktop, qtbot)
    pane.spans["week"].click()
    for size in (1080, 720, width):
        desktop.window.resize(size, 720)
    qtbot.waitUntil(lambda: pane.tables.latest.rowCount() > 10)
    qtbot.waitUntil(lambda: pane.tables.latest.horizontalScrollBar().maximum() == 0)
    assert len(rows(pane.tables.latest)[0]) == (7 if width == 720 else 9)


def test_another_programs_requests_come_too(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    now = time.time()
    home = tmp_path / "home"
    put(home, [record(now - 60)])
    desktop = open_desktop(home=home)
    pane = look(desktop, qtbot)
    pane.spans["week"].click()
    qtbot.waitUntil(lambda: pane.cards["requests"].words == "1")
    before = pane.history.look
    answers: list[object] = []
    pane.history.look_again()
    desktop.onlookers.history.ask(lambda store: None, answers.append)
    qtbot.waitUntil(lambda: bool(answers))
    assert pane.history.look is before
    with closing(open_database(Paths(home).history, HISTORY).connection) as connection:
        RequestStore(connection).add(record(now - 30, client="chat"))
    pane.history.look_again()
    qtbot.waitUntil(lambda: pane.cards["requests"].words == "2")
    assert rows(pane.tables.latest)[0][2] == "mlxr chat"


def test_a_newer_history_shows_this_session(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    path = Paths(tmp_path / "home").history
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(HISTORY.migrations) + 1}")
    desktop = open_desktop(home=tmp_path / "home")
    assert desktop.conversation.send("hello")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert look(desktop, qtbot).cards["requests"].words == "1"


def test_a_history_that_cannot_be_read_is_said_until_it_can(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    put(tmp_path / "home", [record(time.time() - 60)])
    desktop = open_desktop(home=tmp_path / "home")
    pane = look(desktop, qtbot)
    pane.spans["week"].click()
    qtbot.waitUntil(lambda: pane.cards["requests"].words == "1")
    path = Paths(tmp_path / "home").history

    def rename(name: str, other: str) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"ALTER TABLE {name} RENAME TO {other}")

    rename("requests", "gone")
    pane.spans["day"].click()
    qtbot.waitUntil(lambda: pane.empty.isVisible())
    qtbot.waitUntil(lambda: "no such table: requests" in pane.empty.text())
    assert pane.empty.text().startswith("The history of requests cannot be read right now")
    assert {card.words for card in pane.cards.values()} == {"–"}
    assert pane.panel.isHidden()
    rename("gone", "requests")
    pane.history.look_again()
    qtbot.waitUntil(lambda: pane.cards["requests"].words == "1")
    assert pane.empty.isHidden()
