"""A button that looks like a link."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton


def link_button(words: str) -> QPushButton:
    """One that says `words`."""
    button = QPushButton(words)
    button.setProperty("kind", "link")
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    return button
