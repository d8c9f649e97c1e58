"""A line to search with: Escape empties it, Down leads into what was found."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from app.appearance import Appearance
from app.icons import icon
from app.theme import Theme


class SearchField(QLineEdit):
    """A QLineEdit with a magnifying glass. Intent: `entered` to go down into the list under it."""

    entered = Signal()

    def __init__(self, appearance: Appearance, words: str, parent: QWidget | None = None) -> None:
        """`words` say what is searched, as long as nothing is typed."""
        super().__init__(parent)
        self.setPlaceholderText(words)
        self.setAccessibleName(words)
        self.setClearButtonEnabled(True)
        self._glass = QAction(self)
        self.addAction(self._glass, QLineEdit.ActionPosition.LeadingPosition)
        appearance.changed.connect(self._paint)
        self._paint(appearance.theme)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Escape on an empty field is for those around it."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        elif event.key() == Qt.Key.Key_Down:
            self.entered.emit()
        else:
            super().keyPressEvent(event)

    @Slot(object)
    def _paint(self, theme: Theme) -> None:
        self._glass.setIcon(icon("search", theme.muted, 16))
