"""The history's charts after hours of requests at speed, at every zoom, by a clock that is set thrice."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from tests.app.conftest import OpenDesktop
from tests.app.dashboard.hours import Clocks
from tests.app.dashboard.hours_requests import Session, check_history, check_models
from tests.app.dashboard.hours_window import HoursWindow

HOUR = 3600
STRETCHES = 8
EVENING = datetime(2026, 3, 18, 19, 50).timestamp()
JUMPS = {2: -2 * HOUR, 4: 26 * HOUR, 5: -24 * HOUR}
"""After so many stretches somebody sets the clock: back, to tomorrow, and back to what it should be."""

CHECKED = (2, 4, 7)


@pytest.mark.parametrize("seconds", [450, pytest.param(HOUR, marks=pytest.mark.long)])
def test_hours_at_every_zoom(
    open_desktop: OpenDesktop, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: int
) -> None:
    clocks = Clocks(EVENING)
    earlier = HoursWindow(open_desktop, qtbot, monkeypatch, tmp_path / "home", clocks, tick=1.0)
    earlier.engine.work(600)
    earlier.run(900)
    earlier.desktop.close()
    began = clocks.steady
    window = HoursWindow(open_desktop, qtbot, monkeypatch, tmp_path / "home", clocks, tick=1.0)
    for stretch in range(STRETCHES):
        clocks.wall += JUMPS.get(stretch, 0)
        window.run(seconds, at_once=30)
        if stretch in CHECKED:
            window.look("History")
            session = Session(window.engine.told, earlier.engine.told, clocks.steady - began)
            ask = partial(window.ask_history, window.history)
            check_history(window.history, ask, session, clocks, window.desktop.appearance)
            check_models(window.history, ask, session)
            window.desktop.window.show_chat()
    assert len(window.engine.told) > seconds
