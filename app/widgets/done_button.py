"""The button that closes a dialog in which nothing is left to decide."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QPushButton

DONE = "Done"


def done_button(dialog: QDialog) -> QPushButton:
    """Accepts `dialog`; Return presses it, too."""
    button = QPushButton(DONE)
    button.setDefault(True)
    button.clicked.connect(dialog.accept)
    return button
