"""A button that puts a text on the clipboard and says so."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.appearance import Appearance
from app.widgets.icon_button import IconButton

SAID_MS = 1500


class CopyButton(IconButton):
    """Copies what `source` returns at the time of the click."""

    def __init__(
        self, appearance: Appearance, label: str, source: Callable[[], str], parent: QWidget | None = None
    ) -> None:
        super().__init__(appearance, "copy", label, size=28, icon_size=16, parent=parent)
        self._label = label
        self._source = source
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SAID_MS)
        self._timer.timeout.connect(self._reset)
        self.clicked.connect(self._copy)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._source())
        self.set_icon("check", "accent")
        self.set_label("Copied")
        self._timer.start()

    @Slot()
    def _reset(self) -> None:
        self.set_icon("copy", "muted")
        self.set_label(self._label)
