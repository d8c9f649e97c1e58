"""Opening the dashboard: shown at once, filled pane by pane, without a stall of the window's thread."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.dashboard.dashboard_page import PANES
from app.dashboard.logs_pane import LogsPane
from app.dashboard.pane import Pane
from app.dashboard.tables import fill, plain_table
from app.window import SMALLEST
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop

MOST_MS = 32.0
"""Of the processor, for a step: each takes less than half on a quiet machine, where a frame is 16 ms."""


def steps(desktop: Desktop) -> list[float]:
    """Milliseconds of this thread in each turn of the event loop, from a click until all panes are there."""
    taken: list[float] = []
    desktop.pane.dashboard_wanted.emit()
    while not (desktop.dashboard.desk and desktop.dashboard.desk.page.is_whole):
        began = time.thread_time()
        QApplication.processEvents()
        taken.append(1000 * (time.thread_time() - began))
    return taken


def test_no_step_of_opening_holds_up_the_window(open_desktop: OpenDesktop, tmp_path: Path) -> None:
    longest: list[float] = []
    for place in range(3):
        taken = steps(open_desktop(home=tmp_path / str(place)))
        assert sum(ms > 1 for ms in taken) >= len(PANES), "each pane in a turn of its own"
        longest.append(max(taken))
    assert min(longest) < MOST_MS, longest


def test_a_tab_may_be_chosen_before_its_pane_is_there(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    desktop.pane.dashboard_wanted.emit()
    qtbot.waitUntil(lambda: desktop.dashboard.desk is not None)
    assert desktop.dashboard.desk
    page = desktop.dashboard.desk.page
    assert desktop.window.is_shown(page)
    assert page.findChildren(LogsPane) == []
    page.tab_button("Logs").click()
    qtbot.waitUntil(lambda: page.is_whole)
    (pane,) = page.findChildren(LogsPane)
    assert pane.isVisible()
    assert page.stack.currentWidget() is pane


def test_every_pane_fits_the_smallest_window(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    desktop.pane.dashboard_wanted.emit()
    qtbot.waitUntil(lambda: bool(desktop.dashboard.desk and desktop.dashboard.desk.page.is_whole))
    assert desktop.dashboard.desk
    page = desktop.dashboard.desk.page
    desktop.window.resize(*SMALLEST)
    widths: dict[str, tuple[int, int]] = {}
    for name in PANES:
        page.show_tab(name)
        for _ in range(3):  # the layout settles in steps
            QApplication.processEvents()
        pane = page.stack.currentWidget()
        content = pane.content if isinstance(pane, Pane) else pane
        widths[name] = (content.width(), content.minimumSizeHint().width())
    assert all(needed <= width <= SMALLEST[0] for width, needed in widths.values()), widths
    for name in ("Guide", "A model with a name that is far too long for a line of a window " * 2):
        page.show_model(name)
        QApplication.processEvents()
        assert page.minimumSizeHint().width() <= page.width() == SMALLEST[0]
        tab = page.tab_button(PANES[-1])
        assert tab.mapTo(page, tab.rect().bottomRight()).x() < page.width()
    desktop.window.resize(1080, 720)
    page.show_model("Guide")
    QApplication.processEvents()
    assert page.tab_button("Live").y() == page.tab_button("Logs").y()
    assert page.stack.geometry().y() < 60, "tabs stand beside the title again"


@pytest.mark.parametrize("grows", [False, True])
def test_a_table_takes_the_room_there_is(qtbot: QtBot, appearance: object, grows: bool) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    table = plain_table(window, ("Operation", "Launches"), "Launches")
    column.addWidget(table)
    column.addStretch(1)
    window.resize(400, 150)
    window.show()

    def seen(height: int) -> int:
        """Rows that are seen in a window of that height."""
        window.resize(400, height)
        QApplication.processEvents()
        rows = range(table.rowCount())
        bottom = table.viewport().height()
        return sum(table.rowViewportPosition(row) + table.rowHeight(row) <= bottom for row in rows)

    fill(table, [(f"{place}", "1") for place in range(20)], most=6, grows=grows)
    assert seen(100) == 6, "the window grows with its least height"
    assert 10 < seen(450) < 20 if grows else seen(450) == 6
    assert seen(900) == (20 if grows else 6)
    fill(table, [("0", "1")], most=6, grows=grows)
    assert seen(900) == 1
