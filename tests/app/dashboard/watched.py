"""A window on the real engine, whose every event is written down on its way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.dashboard.cache_pane import CachePane
from app.dashboard.dashboard_page import DashboardPage
from app.dashboard.live_pane import LivePane
from app.model_location import GUIDE
from app.wiring import Desktop
from engine import Engine, EngineSettings, Event, SsdSettings, Stats
from tests.app.conftest import OpenDesktop


class Watched:
    """The guide in a window, with an SSD cache.

    Attributes:
        events: all that the engine has said, on its thread.
    """

    def __init__(self, open_desktop: OpenDesktop, qtbot: QtBot, home: Path, pages: int = 256) -> None:
        """`pages`: of KV memory."""
        self.events: list[Event] = []
        self.qtbot = qtbot
        settings = EngineSettings(kv_pages=pages, ssd=SsdSettings(home / "ssd", floor_bytes=0))

        def make(emit: Callable[[Event], None]) -> Engine:
            def both(event: Event) -> None:
                self.events.append(event)
                emit(event)

            return Engine(both, settings)

        self.desktop: Desktop = open_desktop(make, GUIDE, home / "home")

    def wait(self, until: Callable[[], bool]) -> None:
        """Let the window run until it is so."""
        self.qtbot.waitUntil(until)

    def say(self, words: str, answers: int = 1) -> str:
        """Ask, wait for the answer, and return the chat's id."""
        assert self.desktop.conversation.send(words, answers)
        self.wait(lambda: not self.desktop.conversation.state.busy)
        chat = self.desktop.conversation.chat
        assert chat
        return chat.id

    def last_stats(self) -> Stats:
        """What the engine told last."""
        return next(event for event in reversed(self.events) if isinstance(event, Stats))

    def settle(self) -> Stats:
        """Until what the engine said last, at rest, has reached the window: this."""
        live = self.desktop.dashboard.live

        def is_settled() -> bool:
            last = self.last_stats()
            return last.running == 0 and live.figures.stats == last

        self.wait(is_settled)
        shown = live.figures.stats
        assert shown is not None
        return shown

    def look(self, tab: str) -> None:
        """Open the dashboard as a click on its button does, and one of its panes."""
        self.desktop.pane.dashboard_wanted.emit()
        self.wait(lambda: self.desktop.dashboard.desk is not None)
        self.wait(lambda: self.desktop.window.is_shown(self.page) and self.page.is_whole)
        self.page.show_tab(tab)

    @property
    def page(self) -> DashboardPage:
        """The page."""
        desk = self.desktop.dashboard.desk
        assert desk is not None
        return desk.page

    @property
    def live(self) -> LivePane:
        """The pane of the live figures."""
        (found,) = self.page.findChildren(LivePane)
        return found

    @property
    def cache(self) -> CachePane:
        """The pane of the cache."""
        (found,) = self.page.findChildren(CachePane)
        return found
