"""One line that says why an answer failed."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QWidget

from app.appearance import Appearance
from app.icons import pixmap

ICON = 20


class ErrorLine(QFrame):
    """An error's text, which can be selected and copied."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("errorLine")
        self._appearance = appearance
        self._icon = QLabel()
        self._icon.setFixedSize(ICON, ICON)
        self._text = QLabel()
        self._text.setWordWrap(True)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 10, 12, 10)
        row.setSpacing(8)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._text, 1)
        appearance.changed.connect(self._paint)
        self._paint()

    @property
    def text(self) -> str:
        """The error."""
        return self._text.text()

    def say(self, error: str) -> None:
        """Show the error."""
        self._text.setText(error)
        self.setAccessibleName(f"Error: {error}")

    @Slot()
    def _paint(self) -> None:
        self._icon.setPixmap(pixmap("warning", self._appearance.theme.danger, ICON, self.devicePixelRatioF()))
