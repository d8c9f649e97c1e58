"""The dashboard with the real engine and the guide: what is shown is what the engine's events said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.dashboard.live_pane import LivePane
from app.dashboard.series import runs
from app.model_location import GUIDE
from app.wiring import Desktop
from engine import Bandwidth, Engine, EngineSettings, Event, Finished, SsdSettings, Stats, UnloadModel
from tests.app.conftest import OpenDesktop

PATIENCE = 30_000  # ms


class Watched:
    """A window on the real engine, whose every event is written down on its way."""

    def __init__(self, open_desktop: OpenDesktop, qtbot: QtBot, home: Path) -> None:
        self.events: list[Event] = []
        self.qtbot = qtbot
        settings = EngineSettings(kv_pages=256, ssd=SsdSettings(home / "ssd", floor_bytes=0))

        def make(emit: Callable[[Event], None]) -> Engine:
            def both(event: Event) -> None:
                self.events.append(event)
                emit(event)

            return Engine(both, settings)

        self.desktop: Desktop = open_desktop(make, GUIDE, home / "home")

    def wait(self, until: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(until, timeout=PATIENCE)

    def say(self, words: str, answers: int = 1) -> None:
        assert self.desktop.conversation.send(words, answers)
        self.wait(lambda: not self.desktop.conversation.state.busy)

    def last_stats(self) -> Stats:
        return next(event for event in reversed(self.events) if isinstance(event, Stats))

    def settle(self) -> None:
        """Until what the engine said last, at rest, has reached the window."""
        live = self.desktop.dashboard.live
        self.wait(lambda: self.last_stats().running == 0 and live.figures.stats == self.last_stats())

    @property
    def pane(self) -> LivePane:
        (found,) = self.desktop.dashboard.page.findChildren(LivePane)
        return found


@pytest.fixture
def watched(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Watched:
    monkeypatch.setattr("engine.stats.INTERVAL", 0.02)  # the guide answers quickly
    return Watched(open_desktop, qtbot, tmp_path)


def test_live_figures_are_the_engines(watched: Watched) -> None:
    desktop = watched.desktop
    desktop.dashboard.toggle()
    assert desktop.window.is_shown(desktop.dashboard.page)
    watched.wait(lambda: any(isinstance(event, Bandwidth) for event in watched.events))
    watched.say("What is a page?")
    desktop.conversation.new_chat()
    watched.say("How do I open another model?", 3)
    watched.settle()
    watched.pane.refresh()
    stats = watched.last_stats()
    ends = [event for event in watched.events if isinstance(event, Finished)]
    words = {key: card.words for key, card in watched.pane.cards.items()}
    assert words["decode"] == f"–, last answer {_number(ends[-1].timing.decode_tps)} tok/s"
    assert words["prefill"] == f"{_number(stats.prefill_tps)} tok/s, last prompt"
    assert words["ttft"] == f"{_number(ends[-1].timing.ttft_ms)} ms, last answer"
    gaps = stats.gaps
    assert gaps.count > 20
    assert words["gaps"] == (
        f"{_number(gaps.p50_ms)} ms, p95 {_number(gaps.p95_ms)} · p99 {_number(gaps.p99_ms)} ms"
    )
    assert words["batch"] == "0 running, none waiting"
    assert words["memory"].startswith(f"{stats.memory.process_bytes / 1e6:.0f} MB, weights ")
    told = [event for event in watched.events if isinstance(event, Bandwidth)]
    assert len(told) == 1
    if told[0].bytes_per_second:
        assert words["bandwidth"] == f"–, memory reads {told[0].bytes_per_second / 1e9:.1f} GB/s"
    assert watched.pane.requests.rows[0][0] == "Nothing runs"


def test_the_chart_and_its_table_are_the_events(watched: Watched) -> None:
    watched.desktop.dashboard.toggle()
    watched.say("What is a page?")
    watched.settle()
    stats = [event for event in watched.events if isinstance(event, Stats)]
    pane = watched.pane
    pane.cards["memory"].click()
    assert runs(pane.chart.points, 2, gap=1e9) == [[(event.at, event.memory.arena_bytes) for event in stats]]
    pane.cards["decode"].click()
    assert [(p.at, p.values) for p in pane.chart.points] == [(e.at, (e.decode_tps,)) for e in stats]
    assert max(event.decode_tps for event in stats) > 0
    assert "Decode: least 0 tok/s" in pane.chart.accessibleDescription()
    pane.table_button.click()
    table = pane.samples
    assert table.rowCount() == len(stats)
    shown = [table.data(table.index(row, 1)) for row in range(len(stats))]
    assert shown == [f"{_number(event.decode_tps)} tok/s" for event in reversed(stats)]


def test_a_model_loaded_anew_mid_chart_begins_anew(watched: Watched) -> None:
    watched.desktop.dashboard.toggle()
    watched.say("What is a page?")
    watched.settle()
    watched.desktop.engine.submit(UnloadModel())
    watched.wait(lambda: watched.desktop.models.state.phase == "none")
    watched.desktop.models.open(str(GUIDE))
    watched.wait(lambda: watched.desktop.models.state.phase == "ready")
    assert watched.desktop.dashboard.live.figures.stats is None
    watched.pane.refresh()
    assert watched.pane.cards["gaps"].words == "–"
    watched.desktop.conversation.new_chat()
    watched.say("What is a page?")
    watched.settle()
    cards = {key: card.read for key, card in ((c.card.key, c.card) for c in watched.pane.cards.values())}
    assert cards["decode"](watched.desktop.dashboard.live.figures) == (0.0,)
    points = watched.desktop.dashboard.live.series("gaps").points
    assert any(point.values == (None, None, None) for point in points)


def _number(value: float) -> str:
    """Two digits that count, written another way than the product does it."""
    if value >= 10 or value == 0:
        return format(round(value), ",")
    if value >= 1:
        return f"{value:.1f}".replace(".0", "")
    return f"{float(f'{value:.2g}'):g}"
