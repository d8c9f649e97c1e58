"""A setting that is one of a few choices: what is chosen, the choices, and a note."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.widgets.choice_row import ChoiceRow


class ChoiceSection(QWidget):
    """Intent: `chosen(name)`, as of a ChoiceRow."""

    chosen = Signal(str)

    def __init__(
        self,
        label: str,
        choices: Sequence[tuple[str, str]],
        current: str,
        note: str,
        parent: QWidget | None = None,
    ) -> None:
        """`label`, `choices` and `current` are those of a ChoiceRow; `note` says what follows from them."""
        super().__init__(parent)
        self._row = ChoiceRow(label, choices, current)
        self._row.chosen.connect(self.chosen)
        words = QLabel(note)
        words.setProperty("role", "muted")
        words.setWordWrap(True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(QLabel(label))
        column.addWidget(self._row)
        column.addWidget(words)

    @property
    def row(self) -> ChoiceRow:
        """The choices."""
        return self._row
