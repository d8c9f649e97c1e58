"""The window for tests: dressed as in the app, with a scripted engine unless the real one is asked for."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.application import make_application
from app.paths import Paths
from app.wiring import Desktop, MakeEngine
from tests.fakes.scripted_engine import ScriptedEngine


@pytest.fixture(autouse=True)
def _garbage_dies_here() -> Iterator[None]:
    """Qt objects in cycles are destroyed on this thread, not on one that a later test starts."""
    gc.disable()
    yield
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    gc.freeze()  # what is still there is the test run's own: the next collection need not look through it
    gc.enable()


@pytest.fixture
def application(qapp: QApplication) -> QApplication:
    """The QApplication, as the app sets it up."""
    return make_application()


@pytest.fixture
def appearance(application: QApplication) -> Appearance:
    """The light look."""
    return Appearance(application, "light")


OpenDesktop = Callable[..., Desktop]


@pytest.fixture
def open_desktop(application: QApplication, qtbot: QtBot, tmp_path: Path) -> Iterator[OpenDesktop]:
    """Opens windows over one data home, and closes them at the end. The model "loaded" is a folder's name."""
    opened: list[Desktop] = []

    def open_one(
        make_engine: MakeEngine = ScriptedEngine,
        model: Path | None = Path("/models/tiny-chat"),
        home: Path = tmp_path / "home",
        wait: bool = True,
    ) -> Desktop:
        desktop = Desktop(application, make_engine, Paths(home))
        opened.append(desktop)
        desktop.appearance.choose("light")
        desktop.start(model)
        if wait:
            qtbot.waitUntil(lambda: desktop.models.state.phase in ("ready", "failed"), timeout=20_000)
        return desktop

    yield open_one
    for desktop in opened:
        desktop.close()
        desktop.window.deleteLater()
