"""The setting of a model that nobody uses: for how long it stays in memory."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.settings import UnloadAfter
from app.widgets.choice_row import ChoiceRow

CHOICES = (("5", "5"), ("15", "15"), ("30", "30"), ("60", "60"), ("off", "Never"))

UNLOAD_AFTER = "Minutes until it leaves memory"
NOTE = "It comes back by itself when you write. A chat that you keep in memory keeps its model there."


class ModelSection(QWidget):
    """Intent: `unload_after_chosen(minutes, or "off")`."""

    unload_after_chosen = Signal(str)

    def __init__(self, unload_after: UnloadAfter, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._unload_after = ChoiceRow(UNLOAD_AFTER, CHOICES, unload_after)
        self._unload_after.chosen.connect(self.unload_after_chosen)
        note = QLabel(NOTE)
        note.setProperty("role", "muted")
        note.setWordWrap(True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(QLabel(UNLOAD_AFTER))
        column.addWidget(self._unload_after)
        column.addWidget(note)

    @property
    def unload_after(self) -> ChoiceRow:
        """The choice of minutes."""
        return self._unload_after
