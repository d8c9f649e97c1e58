"""Pictures of the windows about MLXR, saved under build/screenshots to be looked at."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from PySide6.QtWidgets import QApplication, QDialog
from pytestqt.qtbot import QtBot

from app.about.about_dialog import AboutDialog
from app.about.door import AboutDoor
from app.about.licences_dialog import LicencesDialog
from app.about.text_dialog import TextDialog
from app.downloads.lanes import Lanes
from app.paths import Paths
from app.settings_desk import SettingsDesk
from app.updates.channel import Channel
from app.updates.words import ASKING, CANNOT, NEVER
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop

FOLDER = Path(__file__).resolve().parents[3] / "build" / "screenshots"


@pytest.fixture(params=["light", "dark"])
def look(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def desktop(open_desktop: OpenDesktop, look: str) -> Desktop:
    desktop = open_desktop()
    desktop.appearance.choose("light" if look == "light" else "dark")
    return desktop


@pytest.fixture
def published(
    desktop: Desktop, channel: Channel, trusted: ssl.SSLContext, tmp_path: Path
) -> Iterator[AboutDoor]:
    """The way to About of an MLXR whose releases are told by the site."""
    paths = Paths(tmp_path / "home")
    door = AboutDoor(
        desktop.appearance,
        desktop.window,
        paths,
        desktop.queue.post,
        desktop.chosen,
        desktop.models,
        SettingsDesk(
            desktop.chosen, desktop.appearance, Lanes(3), desktop.engine.submit, desktop.window.toast, paths
        ),
        channel,
        trusted,
    )
    yield door
    door.close(10)


D = TypeVar("D", bound=QDialog)


def shown(desktop: Desktop, qtbot: QtBot, kind: type[D]) -> D:
    dialog = desktop.window.findChild(kind)
    assert dialog is not None
    qtbot.waitUntil(dialog.isVisible)
    return dialog


def save(dialog: QDialog, name: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    QApplication.processEvents()  # what was said just now is laid out
    assert dialog.grab().save(str(FOLDER / f"{name}.png"))


def test_about(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    desktop.about.show_about()
    dialog = shown(desktop, qtbot, AboutDialog)
    save(dialog, f"{look}-about")
    assert dialog.update_line.text() == CANNOT
    assert not dialog.check.isVisible()
    assert "Runs on" in dialog.runs.text()


def test_about_with_an_update(desktop: Desktop, published: AboutDoor, qtbot: QtBot, look: str) -> None:
    published.start()
    qtbot.waitUntil(lambda: published.updates.state.words == NEVER)
    published.show_about()
    dialog = shown(desktop, qtbot, AboutDialog)
    save(dialog, f"{look}-about-before")
    dialog.check.click()
    assert dialog.update_line.text() == ASKING
    qtbot.waitUntil(lambda: published.updates.state.phase == "newer")
    assert dialog.page.isVisible()
    assert "0.2.0 is available" in dialog.update_line.text()
    save(dialog, f"{look}-about-update")


def test_what_is_new(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    desktop.about.show_news()
    dialog = shown(desktop, qtbot, TextDialog)
    save(dialog, f"{look}-news")
    assert len(dialog.view.toPlainText()) > 1000


def test_licences(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    desktop.about.show_licences()
    dialog = shown(desktop, qtbot, LicencesDialog)
    qtbot.waitUntil(lambda: dialog.list.count() > 20)
    assert dialog.title.text().startswith("MLXR ")
    dialog.search.setText("lgpl")
    names = [dialog.list.item(row).text() for row in range(dialog.list.count())]
    assert names == ["PySide6_Essentials", "shiboken6"]
    save(dialog, f"{look}-licences")
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in dialog.text.toPlainText()
    dialog.search.setText("no such part")
    save(dialog, f"{look}-licences-none")
    assert dialog.text.toPlainText() == ""
    dialog.search.clear()
    save(dialog, f"{look}-licences-all")
