"""Files and links that are opened with MLXR, as macOS hands them over: events to the application."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QUrl
from PySide6.QtGui import QFileOpenEvent
from pytestqt.qtbot import QtBot

from app.application import Application, make_application
from tests.app.conftest import OpenDesktop


@pytest.fixture
def told(application: Application) -> Iterator[list[str]]:
    """What the application tells of."""
    told: list[str] = []
    application.wanted.connect(told.append)
    yield told
    application.wanted.disconnect(told.append)


def test_an_opened_file_is_opened_in_the_window(
    application: Application, open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop()
    application.wanted.connect(desktop.opener.open)
    application.listen()
    desktop.window.showMinimized()
    QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl.fromLocalFile("/models/zwölf b.gguf")))
    application.wanted.disconnect(desktop.opener.open)
    assert desktop.models.state.path == "/models/zwölf b.gguf"
    assert not desktop.window.isMinimized()


def test_links_are_told_as_they_were_written(application: Application, told: list[str]) -> None:
    application.listen()
    for link in ("mlxr://model/Qwen/Qwen3-0.6B", "mlxr://model/a%20b/c?x=1#y"):
        QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl(link)))
    assert told == ["mlxr://model/Qwen/Qwen3-0.6B", "mlxr://model/a%20b/c?x=1#y"]


def test_what_comes_while_the_app_starts_is_kept(
    application: Application, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "_kept", [])
    QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl("mlxr://model/lab/tiny")))
    QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl.fromLocalFile("/chats/a.mlxrchat")))
    assert told == []
    application.listen()
    assert told == ["mlxr://model/lab/tiny", "/chats/a.mlxrchat"]
    QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl.fromLocalFile("/b.gguf")))
    assert told[2:] == ["/b.gguf"]


def test_other_events_and_addresses_tell_of_no_file(told: list[str], qtbot: QtBot) -> None:
    application = make_application()
    application.listen()
    QCoreApplication.sendEvent(application, QEvent(QEvent.Type.ApplicationPaletteChange))
    QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl("https://example.org/a.gguf")))
    assert told == []


def test_a_thread_that_waits_for_python_gets_it_soon() -> None:
    """As the engine's between two tokens, while the window's paints: within less than a token takes."""
    sys.setswitchinterval(0.005)  # Python's own
    make_application()
    assert sys.getswitchinterval() < 0.001
