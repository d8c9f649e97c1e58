"""The dashboard with the real engine and the guide: what is shown is what the engine's events said."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.model_location import GUIDE
from engine import (
    PINNED,
    RUNNING,
    Bandwidth,
    Cancel,
    Finished,
    Generate,
    PageMap,
    Stats,
    TokenGaps,
    UnloadModel,
)
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.watched import Watched
from tests.fakes.random_model import write_random_model


@pytest.fixture
def watched(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Watched:
    monkeypatch.setattr("engine.stats.INTERVAL", 0.02)  # the guide answers quickly
    monkeypatch.setattr("engine.machine.bandwidth.ROWS", 1024)  # measured all the same, if of a cache
    return Watched(open_desktop, qtbot, tmp_path)


def test_live_figures_are_the_engines(watched: Watched) -> None:
    desktop = watched.desktop
    watched.look("Live")
    watched.wait(lambda: any(isinstance(event, Bandwidth) for event in watched.events))
    watched.say("What is a page?")
    desktop.conversation.new_chat()
    watched.say("How do I open another model?", 3)
    stats = watched.settle()
    watched.live.refresh()
    ends = [event for event in watched.events if isinstance(event, Finished)]
    words = {key: card.words for key, card in watched.live.cards.items()}
    assert words["decode"] == f"–, last answer {_number(ends[-1].timing.decode_tps)} tok/s"
    assert words["prefill"] == f"{_number(stats.prefill_tps)} tok/s, last prompt"
    assert words["ttft"] == f"{_time(ends[-1].timing.ttft_ms)}, last answer"
    gaps = stats.gaps
    assert gaps.count > 20
    assert words["gaps"] == (
        f"{_number(gaps.p50_ms)} ms, p95 {_number(gaps.p95_ms)} · p99 {_number(gaps.p99_ms)} ms"
    )
    assert words["batch"] == "0 running, none waiting"
    detail = "the system is short of memory" if stats.memory.is_short else "weights "
    assert words["memory"].startswith(f"{_size(stats.memory.process_bytes)}, {detail}")
    told = [event for event in watched.events if isinstance(event, Bandwidth)]
    assert len(told) == 1
    if told[0].bytes_per_second:
        assert words["bandwidth"] == f"–, memory reads {_size(told[0].bytes_per_second)}/s"
    assert watched.live.requests.rows[0][0] == "Nothing runs"


def test_what_another_model_answers_is_among_what_runs(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    watched = Watched(open_desktop, qtbot, tmp_path, pages=1024)
    desktop = watched.desktop
    other = write_random_model(tmp_path / "other", max_position_embeddings=1 << 12)
    for path in (other, GUIDE):
        desktop.models.open(str(path))
        watched.wait(lambda path=path: desktop.models.state.path == str(path))
        watched.wait(lambda: desktop.models.state.phase == "ready")
    watched.look("Live")
    desktop.engine.submit(Generate("a", tokens=(5, 6), max_tokens=4000, ignore_eos=True, model=str(other)))
    watched.wait(lambda: watched.live.requests.rows[0][0] == "other: A program")
    assert desktop.dashboard.live.figures.model
    assert desktop.dashboard.live.figures.model.path == str(GUIDE)
    desktop.engine.submit(Cancel("a"))
    watched.wait(lambda: watched.live.requests.rows[0][0] == "Nothing runs")


def test_the_chart_and_its_table_are_the_events(watched: Watched) -> None:
    watched.look("Live")
    watched.say("What is a page?")
    last = watched.settle()
    stats = [event for event in watched.events if isinstance(event, Stats) and event.at <= last.at]
    pane = watched.live
    pane.cards["memory"].click()
    built = [(point.at, point.values[2]) for point in pane.chart.points]
    assert built == [(event.at, event.memory.arena_bytes) for event in stats]
    pane.cards["decode"].click()
    assert [(p.at, p.values) for p in pane.chart.points] == [(e.at, (e.decode_tps,)) for e in stats]
    assert max(event.decode_tps for event in stats) > 0
    assert "Decode: least 0 tok/s" in pane.chart.accessibleDescription()
    pane.panel.table_button.click()
    table = pane.samples
    assert table.rowCount() == len(stats)
    shown = [table.data(table.index(row, 1)) for row in range(len(stats))]
    assert shown == [f"{_number(event.decode_tps)} tok/s" for event in reversed(stats)]


def test_a_model_loaded_anew_mid_chart_begins_anew(watched: Watched) -> None:
    watched.look("Live")
    watched.say("What is a page?")
    watched.settle()
    watched.desktop.engine.submit(UnloadModel())
    watched.wait(lambda: watched.desktop.models.state.phase == "none")
    watched.desktop.models.open(str(GUIDE))
    watched.wait(lambda: watched.desktop.models.state.phase == "ready")
    told = watched.desktop.dashboard.live.figures.stats  # an engine that got ready for stored chats says so
    assert told is None or (told.gaps, dict(told.launches)) == (TokenGaps(), {})
    watched.live.refresh()
    assert watched.live.cards["gaps"].words == "–"
    watched.desktop.conversation.new_chat()
    watched.say("What is a page?")
    watched.settle()
    cards = {key: card.read for key, card in ((c.card.key, c.card) for c in watched.live.cards.values())}
    assert cards["decode"](watched.desktop.dashboard.live.figures) == (0.0,)
    points = watched.desktop.dashboard.live.series("gaps").points
    assert any(point.values == (None, None, None) for point in points)


def test_every_map_that_is_shown_is_the_engines(watched: Watched) -> None:
    watched.look("Cache")
    pane, cache = watched.cache, watched.desktop.dashboard.cache
    shown: list[tuple[PageMap, bytes]] = []

    def look() -> None:
        pane.refresh()
        if cache.pages is not None:
            numbers = range(len(cache.pages.states))
            assert pane.map.grid.pages + pane.map.unseen == 256
            shown.append((cache.pages, bytes(page.state for n in numbers if (page := cache.page(n)))))

    cache.changed.connect(look)
    chats = [watched.say("What is a page?")]
    watched.desktop.conversation.new_chat()
    chats.append(watched.say("How do I open another model?", 3))

    def is_at_rest() -> bool:
        """Whether the newest map and figures are of one moment after the answers, and in the window."""
        pages = next((event for event in reversed(watched.events) if isinstance(event, PageMap)), None)
        stats = watched.last_stats()
        if pages is None or stats.running or any(state & RUNNING for state in pages.states):
            return False
        is_of_one_moment = sum(map(bool, pages.states)) == stats.cached_pages
        return is_of_one_moment and (cache.pages, cache.stats) == (pages, stats)

    watched.wait(is_at_rest)
    last, stats = cache.pages, cache.stats
    assert last is not None
    assert stats is not None
    assert shown[-1] == (last, last.states)
    told = [event for event in watched.events if isinstance(event, PageMap)]
    assert all(pages in told and states == pages.states for pages, states in shown)
    assert stats.cached_pages > 0
    assert {chat for owners in last.owners for chat in owners} == set(chats)
    words = pane.gauge.text()
    assert words.startswith(f"0 of 256 pages in use, {stats.cached_pages} kept for later")
    place = next(n for n in range(256) if (page := cache.page(n)) and page.chats == (chats[0],))
    page = cache.page(place)
    assert page is not None
    said = pane.map.words_for(page, time.perf_counter())
    assert said.startswith(f"Page {place}: What is a page?\nlast used ")


def test_a_click_on_a_page_goes_to_its_chat(watched: Watched) -> None:
    first = watched.say("What is a page?")
    watched.desktop.conversation.new_chat()
    watched.say("How do I open another model?")
    watched.look("Cache")
    cache, pages = watched.desktop.dashboard.cache, watched.cache.map
    watched.wait(lambda: cache.pages is not None)
    watched.cache.refresh()
    place = next(n for n in range(256) if (page := cache.page(n)) and page.chats == (first,))
    row, column = divmod(place, pages.grid.columns)
    side = pages.grid.side
    middle = QPoint(column * side + side // 2, row * side + side // 2)
    _hover(pages, middle)
    assert pages.toolTip().startswith(f"Page {place}: What is a page?\nlast used ")
    watched.qtbot.mouseClick(pages, Qt.MouseButton.LeftButton, pos=middle)
    assert watched.desktop.window.is_chat_shown
    conversation = watched.desktop.conversation
    watched.wait(lambda: conversation.chat is not None and conversation.chat.id == first)


def test_a_chats_pages_are_pinned_released_and_cleared(watched: Watched) -> None:
    chat = watched.say("What is a page?")
    desktop, table = watched.desktop, None
    watched.look("Cache")
    table = watched.cache.chats
    watched.wait(lambda: bool(table.rows))
    table.select(chat)
    table.pin_button.click()
    watched.wait(lambda: table.rows[0][-1] == "in memory")
    assert desktop.pins.pinned == {chat}
    assert not table.release_button.isEnabled()
    watched.wait(lambda: any(isinstance(e, PageMap) and e.states[0] & PINNED for e in watched.events))
    table.pin_button.click()
    watched.wait(lambda: table.rows[0][-1] == "")
    table.release_button.click()
    watched.wait(lambda: chat in desktop.chats.memory and desktop.chats.memory[chat].memory_bytes == 0)
    watched.wait(lambda: any(row[1] == "–" != row[2] for row in table.rows))
    assert watched.last_stats().cached_pages == 0
    table.select(chat)  # a slow disk may have left it without pages for a moment
    table.clear_button.click()
    watched.wait(lambda: chat not in desktop.chats.memory and table.rows == [])


def test_a_chat_that_is_kept_in_memory_is_so_after_it_was_cleared(watched: Watched) -> None:
    chat = watched.say("What is a page?")
    desktop = watched.desktop
    desktop.pins.pin(chat, True)
    watched.look("Cache")
    table = watched.cache.chats
    watched.wait(lambda: bool(table.rows))
    table.select(chat)
    table.clear_button.click()
    watched.wait(lambda: table.rows == [])
    watched.say("Where are my chats saved?")
    watched.wait(lambda: bool(table.rows))
    assert table.rows[0][-1] == "in memory"
    cache = desktop.dashboard.cache
    watched.wait(lambda: cache.pages is not None and any(state & PINNED for state in cache.pages.states))


def test_pages_are_told_only_while_somebody_looks(watched: Watched) -> None:
    watched.look("Live")
    watched.say("What is a page?")
    assert not any(isinstance(event, PageMap) for event in watched.events)
    watched.page.show_tab("Cache")
    watched.wait(lambda: any(isinstance(event, PageMap) for event in watched.events))
    watched.desktop.window.show_chat()
    watched.desktop.conversation.new_chat()
    watched.say("Who are you?")
    count = sum(isinstance(event, PageMap) for event in watched.events)
    watched.say("What is a page?")
    assert sum(isinstance(event, PageMap) for event in watched.events) == count


def test_why_nothing_is_written_is_said_until_it_is(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.kv.ssd.problem.AGAIN_S", 0.0)
    monkeypatch.setattr("engine.rest.tidying.LOOK_EVERY", 0.2)
    monkeypatch.setattr("engine.stats.INTERVAL", 0.02)
    in_its_place = tmp_path / "ssd"
    in_its_place.write_text("not a folder")
    watched = Watched(open_desktop, qtbot, tmp_path)
    watched.look("Cache")
    said = watched.cache.disk_problem
    watched.say("What is a page?")
    watched.wait(said.isVisible)
    assert said.text() == (
        f"Nothing is written at present: {in_its_place} cannot be written (File exists); "
        "move it away, and saving goes on"
    )
    assert said.text() == watched.desktop.disk_use.words.splitlines()[-1]  # as settings say it
    in_its_place.unlink()
    watched.say("How do I open another model?")
    watched.wait(lambda: not said.isVisible())
    watched.wait(lambda: watched.last_stats().cache.spilled_pages > 0)


def test_a_window_that_grows_has_its_cards_in_two_rows_again(watched: Watched) -> None:
    watched.look("Live")
    rows: list[int] = []
    for width in (1080, 700, 1080):
        watched.desktop.window.resize(width, 720)
        QApplication.processEvents()
        rows.append(len({card.y() for card in watched.live.cards.values()}))
    assert rows == [2, 4, 2]


def _hover(widget: QWidget, place: QPoint) -> None:
    """The pointer moves there, as Qt tells it; one that is there already would move nowhere."""
    assert widget.hasMouseTracking()
    where, none = QPointF(place), Qt.MouseButton.NoButton
    moved = QMouseEvent(
        QEvent.Type.MouseMove, where, widget.mapToGlobal(where), none, none, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(widget, moved)


def _time(milliseconds: float) -> str:
    """Milliseconds, on a slow machine seconds."""
    return f"{_number(milliseconds)} ms" if milliseconds < 1000 else f"{_number(milliseconds / 1000)} s"


def _size(count: float) -> str:
    """Megabytes, or gigabytes: three digits, but no more than one behind the point."""
    value, unit = (count / 1e9, "GB") if count >= 1e9 else (count / 1e6, "MB")
    return f"{value:.{1 if value < 100 else 0}f} {unit}"


def _number(value: float) -> str:
    """Two digits that count, written another way than the product does it."""
    if value >= 10 or value == 0:
        return format(round(value), ",")
    if value >= 1:
        return f"{value:.1f}".replace(".0", "")
    return f"{float(f'{value:.2g}'):g}"
