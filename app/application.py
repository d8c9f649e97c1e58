"""Qt's object for the process, which macOS hands the files and links to that are opened with MLXR."""

from __future__ import annotations

import sys
from contextlib import suppress

from PySide6.QtCore import QEvent, QUrl, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication

from app import text
from app.icons import app_icon
from app.opening.link import is_link

HAND_OVER_SECONDS = 0.0005
"""After which a thread that runs Python leaves it to one that waits; Python's own is ten times as long."""


class Application(QApplication):
    """Tells of what is opened from outside: by a double click, on the Dock, with "Open With", as a link.

    `wanted(text)` is a file's path or a link. What comes before `listen` is kept until then: macOS sends it
    while the app starts.
    """

    wanted = Signal(str)

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(arguments)
        self._kept: list[str] | None = []

    def listen(self) -> None:
        """Somebody is connected to `wanted`: tell what has come until now, and from now on at once."""
        kept, self._kept = self._kept or [], None
        for wanted in kept:
            self.wanted.emit(wanted)

    def event(self, event: QEvent) -> bool:
        """What Qt sends to the application itself."""
        wanted = _wanted(event) if isinstance(event, QFileOpenEvent) else ""
        if not wanted:
            return super().event(event)
        if self._kept is None:
            self.wanted.emit(wanted)
        else:
            self._kept.append(wanted)
        return True


def _wanted(event: QFileOpenEvent) -> str:
    """The file's path, or the link as it was written; "" for another address."""
    address = event.url().toString(QUrl.ComponentFormattingOption.FullyEncoded)
    return event.file() or (address if is_link(address) else "")


def make_application() -> Application:
    """The process's application, set up for MLXR; made on the first call.

    Python is handed from thread to thread sooner than it usually is: the engine, which needs it for a
    millisecond between tokens, does not wait until a chart is painted.
    """
    sys.setswitchinterval(HAND_OVER_SECONDS)
    existing = QApplication.instance()
    application = existing if isinstance(existing, Application) else Application(sys.argv[:1])
    application.setApplicationName(text.APP_NAME)
    application.setDesktopFileName("mlxr")  # by it a Linux desktop finds the window's entry and icon
    application.setStyle("Fusion")
    with suppress(OSError):  # in a damaged app: the window that says so needs no icon
        application.setWindowIcon(app_icon())
    return application
