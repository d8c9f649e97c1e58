"""A few choices side by side, of which one holds."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QRadioButton, QWidget


class ChoiceRow(QWidget):
    """Radio buttons for `choices`, pairs of name and words: `chosen(name)`."""

    chosen = Signal(str)

    def __init__(
        self, label: str, choices: Sequence[tuple[str, str]], current: str, parent: QWidget | None = None
    ) -> None:
        """`label` says what is chosen, for screen readers; `current` is the name of the choice that holds."""
        super().__init__(parent)
        self._buttons: dict[str, QRadioButton] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        for name, words in choices:
            button = QRadioButton(words)
            button.setAccessibleName(f"{label}: {words}")
            button.setChecked(name == current)
            button.clicked.connect(lambda _=False, name=name: self.chosen.emit(name))
            if name != current and current in dict(choices):  # Tab goes to the one that holds, as Qt has it
                button.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
            row.addWidget(button)
            self._buttons[name] = button
        row.addStretch(1)

    def button(self, name: str) -> QRadioButton:
        """The button of a choice."""
        return self._buttons[name]

    @property
    def current(self) -> str:
        """The name of the choice that holds; "" while none does."""
        return next((name for name, button in self._buttons.items() if button.isChecked()), "")
