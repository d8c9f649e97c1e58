"""The window for tests: dressed as in the app, with a scripted engine unless the real one is asked for."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.application import make_application
from app.engine_like import MakeEngine
from app.paths import Paths
from app.wiring import Desktop
from tests.fakes.scripted_engine import ScriptedEngine

PATIENCE = 60_000  # ms


_freeze = gc.freeze


@pytest.fixture(autouse=True)
def _garbage_dies_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Qt objects in cycles are destroyed on this thread, not on one that a later test starts.

    What is still there behind a test is the test run's own: no later collection looks through it. A window
    that closes would have half a million such objects looked through.
    """
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda: None)
    gc.disable()
    yield
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    _freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _notes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What floats over a window is there until a test has looked at it, however slow the machine is."""
    monkeypatch.setattr("app.widgets.toast.SHOWN_MS", 3_600_000)


class PatientBot(QtBot):
    """Gives up what hangs, and not what a busy machine keeps waiting for pytest-qt's five seconds."""

    def waitUntil(self, callback: Callable[[], Any], *, timeout: int = PATIENCE) -> None:  # noqa: N802
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(self, signal: Any, *, timeout: int = PATIENCE, **more: Any) -> Any:  # noqa: N802
        return super().waitSignal(signal, timeout=timeout, **more)

    def waitExposed(self, widget: Any, *, timeout: int = PATIENCE) -> Any:  # noqa: N802
        return super().waitExposed(widget, timeout=timeout)


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> QtBot:
    """pytest-qt's, with more patience."""
    return PatientBot(request)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own on which no byte is left."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        with (folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(4096))
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


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
            qtbot.waitUntil(lambda: desktop.models.state.phase in ("ready", "failed"))
        return desktop

    yield open_one
    for desktop in opened:
        desktop.close()
        desktop.window.deleteLater()
