"""Files that the Finder opens with MLXR, as macOS hands them over: events to the application."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent, QUrl
from PySide6.QtGui import QFileOpenEvent
from pytestqt.qtbot import QtBot

from app.application import Application
from app.wiring import make_application
from tests.app.conftest import OpenDesktop


def test_an_opened_file_is_opened_in_the_window(
    application: Application, open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop()
    application.file_opened.connect(desktop.come_forward)
    desktop.window.showMinimized()
    QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl.fromLocalFile("/models/zwölf b.gguf")))
    application.file_opened.disconnect(desktop.come_forward)
    assert desktop.models.state.path == "/models/zwölf b.gguf"
    assert not desktop.window.isMinimized()


def test_other_events_and_addresses_tell_of_no_file(qtbot: QtBot) -> None:
    told: list[str] = []
    application = make_application()
    application.file_opened.connect(told.append)
    QCoreApplication.sendEvent(application, QEvent(QEvent.Type.ApplicationPaletteChange))
    QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl("https://example.org/a.gguf")))
    application.file_opened.disconnect(told.append)
    assert told == []
