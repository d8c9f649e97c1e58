"""The setting of downloads: how many files of one are fetched at once."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.settings import FilesAtOnce
from app.widgets.choice_row import ChoiceRow

CHOICES = tuple((count, count) for count in ("1", "2", "3", "5", "8"))

FILES_AT_ONCE = "Files fetched at once"
NOTE = "More may be faster; fewer leave more of your network to others. A change holds at once."


class DownloadsSection(QWidget):
    """Intent: `files_at_once_chosen(how many)`."""

    files_at_once_chosen = Signal(str)

    def __init__(self, files_at_once: FilesAtOnce, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._files_at_once = ChoiceRow(FILES_AT_ONCE, CHOICES, files_at_once)
        self._files_at_once.chosen.connect(self.files_at_once_chosen)
        note = QLabel(NOTE)
        note.setProperty("role", "muted")
        note.setWordWrap(True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(QLabel(FILES_AT_ONCE))
        column.addWidget(self._files_at_once)
        column.addWidget(note)

    @property
    def files_at_once(self) -> ChoiceRow:
        """The choice of how many."""
        return self._files_at_once
