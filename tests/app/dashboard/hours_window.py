"""The real window, its history and its dashboard before a HoursEngine, all by that one's clocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.dashboard.dashboard_page import DashboardPage
from app.dashboard.history_pane import HistoryPane
from app.dashboard.history_view_model import HistoryViewModel
from app.dashboard.live_pane import LivePane
from app.history.recorder import Recorder
from engine import Event
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.hours import MAIN, OTHER, Clocks, HoursEngine


class HoursWindow:
    """Opens the window; `run` lets time go by.

    Attributes:
        engine: what it stands before.
        clocks: the time, which only `run` advances.
    """

    def __init__(
        self,
        open_desktop: OpenDesktop,
        qtbot: QtBot,
        monkeypatch: pytest.MonkeyPatch,
        home: Path,
        clocks: Clocks,
        heard: Callable[[Event], None] = lambda event: None,
        tick: float = 0.1,
    ) -> None:
        """`heard` and `tick` as for HoursEngine."""
        self.clocks, self._qtbot = clocks, qtbot
        timed = partial(Recorder, wall=lambda: clocks.wall, monotonic=lambda: clocks.steady)
        monkeypatch.setattr("app.onlookers.Recorder", timed)
        monkeypatch.setattr("app.bridge.FRAME_MS", 0)
        monkeypatch.setattr("app.dashboard.live_pane.time", SimpleNamespace(perf_counter=lambda: clocks.perf))
        monkeypatch.setattr(
            "app.dashboard.desk.HistoryViewModel", partial(HistoryViewModel, clock=lambda: clocks.wall)
        )
        self.desktop = open_desktop(
            partial(HoursEngine, clocks=clocks, heard=heard, tick=tick), Path(OTHER), home
        )
        self.desktop.models.open(MAIN)
        self._wait(lambda: self.desktop.models.state.phase == "ready")
        assert isinstance(self.desktop.engine, HoursEngine)
        self.engine = self.desktop.engine
        self.engine.ask = self.desktop.onlookers.recorder.passing(self.engine.submit)
        self.desktop.window.resize(1080, 760)

    def run(self, seconds: float, at_once: int = 1) -> None:
        """Let so much time go by; the window takes in the events of so many seconds at a time."""
        for second in self.engine.run(seconds):
            if second % at_once == 0:
                self.deliver()
        self.deliver()

    def deliver(self) -> None:
        """Until the window has taken in all that was said."""
        arrived: list[bool] = []
        self.desktop.queue.post(lambda: arrived.append(True))
        while not arrived:
            QApplication.processEvents()

    def look(self, tab: str) -> None:
        """Open the dashboard on one of its panes."""
        if self.desktop.dashboard.desk is None:
            self.desktop.pane.dashboard_wanted.emit()
            self._wait(lambda: self.desktop.dashboard.desk is not None)
            self._wait(lambda: self.page.is_whole)
        self.desktop.window.show_page(self.page)
        self.page.show_tab(tab)
        self.deliver()

    def ask_history(self, pane: HistoryPane) -> None:
        """Ask the history anew, and wait for its answer."""
        answers: list[bool] = []
        taken = pane.history.changed.connect(lambda: answers.append(True))
        pane.history.ask()
        self._wait(lambda: bool(answers))
        pane.history.disconnect(taken)

    @property
    def page(self) -> DashboardPage:
        """The dashboard."""
        desk = self.desktop.dashboard.desk
        assert desk is not None
        return desk.page

    @property
    def live(self) -> LivePane:
        """Its live pane."""
        return self._pane(LivePane)

    @property
    def history(self) -> HistoryPane:
        """Its history's pane."""
        return self._pane(HistoryPane)

    def _pane(self, kind: type[QWidget]):
        (found,) = self.page.findChildren(kind)
        return found

    def _wait(self, until) -> None:
        self._qtbot.waitUntil(until)
