"""Every figure of the live and cache panes, the line at the foot and `mlxr top` is what an event has said."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from app.chat.status_line import StatusLine
from app.dashboard.cache_pane import CachePane
from app.dashboard.occupancy_bar import HEIGHT
from app.instance.client import LiveLines
from engine import RUNNING, ChatsCached, Event, ModelReady, PageMap, Stats
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.hours import MAIN, PAGES, Clocks
from tests.app.dashboard.hours_window import HoursWindow

EVENING = datetime(2026, 3, 18, 20).timestamp()
MOMENTS = 10


class Heard:
    """What the engine has said last of the main model."""

    def __init__(self) -> None:
        self.stats: Stats | None = None
        self.pages: PageMap | None = None
        self.chats: ChatsCached | None = None
        self.decode = self.ttft = 0.0

    def hear(self, event: Event) -> None:
        """Take in an event."""
        match event:
            case ModelReady() if event.model.path == MAIN:
                self.decode = self.ttft = 0.0
            case Stats(model=model) if model == MAIN:
                self.stats = event
                self.decode = event.decode_tps or self.decode
                began = [request.ttft_ms for request in event.requests if request.ttft_ms]
                self.ttft = began[-1] if began else self.ttft
            case PageMap(model=model) if model == MAIN:
                self.pages = event
            case ChatsCached():
                self.chats = event
            case _:
                pass

    @property
    def strip(self) -> list[str]:
        """The figures of the line at the foot."""
        assert self.stats
        running = self.stats.running
        speed = f"{self.decode:.0f} tok/s" + (f" for {running} answers" if running > 1 else "")
        return [
            f"{self.stats.queued} waiting" if self.stats.queued else "",
            speed,
            "0 / 2,048 tokens",  # of the chat on show, which is new
            f"{self.stats.pages_used + self.stats.cached_pages:,} / {PAGES} pages",
            f"first token {_time(self.ttft)}",
            f"{self.stats.memory.process_bytes / 1e6:.0f} MB",
        ]

    @property
    def requests(self) -> list[tuple[str, ...]]:
        """The rows of the requests that run."""
        assert self.stats
        return [
            (
                "A new chat" if request.chat else "A program",
                f"{request.done_tokens:,} of {request.prompt_tokens:,}",
                f"{request.generated_tokens:,}",
                _time(request.ttft_ms) if request.ttft_ms else "–",
                f"{request.prefill_tps:,.0f}",
                f"{request.decode_tps:.0f}",
            )
            for request in self.stats.requests
        ]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def window(
    open_desktop: OpenDesktop, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, heard: Heard
) -> HoursWindow:
    made = HoursWindow(open_desktop, qtbot, monkeypatch, tmp_path / "home", Clocks(EVENING), heard.hear)
    made.engine.work(600)
    made.run(20)
    return made


def test_the_foot_and_the_requests_that_run(window: HoursWindow, heard: Heard) -> None:
    window.look("Live")
    (line,) = window.desktop.window.findChildren(StatusLine)
    most = 0
    for _ in range(MOMENTS):
        window.run(5)
        window.live.refresh()
        assert heard.stats
        for words in heard.strip:
            assert words in line.words
        wanted = heard.requests or [("Nothing runs", "", "", "", "", "")]
        assert window.live.requests.rows == wanted
        most = max(most, len(heard.requests))
    assert most > 1


def test_pages_and_the_chats_that_have_some(window: HoursWindow, heard: Heard) -> None:
    window.look("Cache")
    (pane,) = window.page.findChildren(CachePane)
    for _ in range(MOMENTS):
        window.run(7)
        pane.refresh()
        assert heard.stats
        assert heard.pages
        assert heard.chats
        held = [state for state in heard.pages.states if state]
        used = sum(state & RUNNING == RUNNING for state in held)
        free = PAGES - len(held)
        said = f"{used} of {PAGES} pages in use, {len(held) - used} kept for later, {free} free"
        assert pane.gauge.text().startswith(said)
        least = HEIGHT / 2 / pane.bar.width() if used else 0.0
        assert _share_of_used(pane) == pytest.approx(max(least, used / PAGES), abs=0.01)
        counts = heard.stats.cache
        saved = counts.cached_tokens + counts.restored_tokens
        seconds = counts.saved_seconds
        names = [panel.value.accessibleName() for panel in pane.facts]
        assert f"Hit rate: {min(99, 100 * saved / (saved + counts.computed_tokens)):.0f} %" in names
        assert f"Tokens saved: {saved:,}" in names
        assert seconds >= 60 or f"Time saved: about {_short(seconds)} s" in names
        sizes = sorted(f"{chat.memory_bytes / 1000:.1f} kB" for chat in heard.chats.chats.values())
        assert sorted(row[1] for row in pane.chats.rows) == sizes


def test_top_has_the_last_stats_whole(window: HoursWindow, heard: Heard) -> None:
    home = window.desktop.dashboard._paths.home
    for _ in range(2):
        window.run(7)
        with LiveLines(home) as live:
            lines = [live.next(5.0) for _ in range(live.app["models"])]
        assert heard.stats
        (line,) = (line for line in lines if line and line["model"]["path"] == MAIN)
        assert line["stats"] == json.loads(json.dumps(asdict(heard.stats)))


def _time(milliseconds: float) -> str:
    """As it stands at the foot and in tables."""
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    return f"{_short(milliseconds / 1000)} s"


def _short(value: float) -> str:
    """Two digits that count."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}".replace(".0", "")


def _share_of_used(pane: CachePane) -> float:
    """How much of the bar is in use, read from the middle line of its picture."""
    image = pane.bar.grab().toImage()
    wanted = QColor(pane.bar._appearance.theme.text)
    row = [image.pixelColor(x, image.height() // 2) == wanted for x in range(image.width())]
    return sum(row) / len(row)
