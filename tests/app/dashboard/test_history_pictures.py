"""Pictures of the history's tab, light and dark, to be looked at."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from tests.app.conftest import OpenDesktop
from tests.app.dashboard.test_history_pane import a_week, look, put
from tests.app.test_screenshots import save


@pytest.mark.long
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_pictures(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, mode: str) -> None:
    put(tmp_path / "home", reversed(a_week(time.time())))
    desktop = open_desktop(home=tmp_path / "home")
    desktop.appearance.choose("light" if mode == "light" else "dark")
    pane = look(desktop, qtbot)
    for size in ((1080, 720), (720, 520)):
        desktop.window.resize(*size)
        pane.spans["session"].click()
        qtbot.waitUntil(lambda: pane.empty.isVisible())
        save(desktop, f"{mode}-dashboard-history-empty-{size[0]}")
        for span, by, card in (("day", "", "tokens"), ("week", "model", "decode")):
            pane.spans[span].click()
            pane.compare.choose(by)
            pane.cards[card].click()
            qtbot.wait(400)
            save(desktop, f"{mode}-dashboard-history-{span}-{size[0]}")
        pane.panel.table_button.click()
        save(desktop, f"{mode}-dashboard-history-table-{size[0]}")
        pane.panel.table_button.click()
        pane.verticalScrollBar().setValue(10_000)
        save(desktop, f"{mode}-dashboard-history-rows-{size[0]}")
