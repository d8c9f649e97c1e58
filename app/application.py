"""Qt's object for the process, which macOS hands the files to that the Finder opens with MLXR."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication


class Application(QApplication):
    """Tells of a file that is opened from outside: by a double click, on the Dock, with "Open With"."""

    file_opened = Signal(str)

    def event(self, event: QEvent) -> bool:
        """What Qt sends to the application itself."""
        if isinstance(event, QFileOpenEvent) and event.file():
            self.file_opened.emit(event.file())
            return True
        return super().event(event)
