"""The live charts after minutes of events at speed, at every zoom: what is drawn is what the events said."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine import Event, ModelReady, ModelUnloaded
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.hours import MAIN, REST_SECONDS, Clocks
from tests.app.dashboard.hours_samples import Samples
from tests.app.dashboard.hours_window import HoursWindow

EVENING = datetime(2026, 3, 18, 20).timestamp()
ZOOMS = (25, 30, 55, 140)
"""Seconds after each other, which lead into the charts of 30 s, 1, 2 and 5 minutes."""


@pytest.mark.parametrize("jump", [-1000.0, 5000.0])
def test_every_zoom_shows_what_was_said(
    open_desktop: OpenDesktop, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jump: float
) -> None:
    samples = Samples(MAIN)
    window = HoursWindow(open_desktop, qtbot, monkeypatch, tmp_path / "home", Clocks(EVENING), samples.hear)
    window.look("Live")
    window.engine.work(40)
    window.run(40)
    samples.check(window.live, window.clocks, window.desktop.appearance)
    window.clocks.perf += jump
    spans: list[float] = []
    window.engine.work(sum(ZOOMS))
    for seconds in ZOOMS:
        window.run(seconds)
        samples.check(window.live, window.clocks, window.desktop.appearance)
        spans.append(window.live.chart.span)
    assert spans == [30.0, 60.0, 120.0, 300.0]


def test_rests_and_loads_are_gaps(
    open_desktop: OpenDesktop, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    samples, events = Samples(MAIN), list[Event]()

    def hear(event: Event) -> None:
        samples.hear(event)
        events.append(event)

    window = HoursWindow(open_desktop, qtbot, monkeypatch, tmp_path / "home", Clocks(EVENING), hear)
    window.look("Live")
    for work, rest in ((100, 20), (60, REST_SECONDS + 60), (30, 60)):
        window.engine.work(work)
        window.run(work)
        window.engine.rest(rest)
        window.run(rest)
        samples.check(window.live, window.clocks, window.desktop.appearance)
    loads = [event for event in events if isinstance(event, ModelReady | ModelUnloaded)]
    paths = [event.path if isinstance(event, ModelUnloaded) else event.model.path for event in loads]
    kinds = [type(event) for event, path in zip(loads, paths, strict=True) if path == MAIN]
    assert kinds == [ModelReady, ModelUnloaded, ModelReady]
