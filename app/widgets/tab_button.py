"""A button that shows one of several things, or shows something in another way, while it is checked."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QWidget


class TabButton(QToolButton):
    """Says `words`, and on hover what `about` says of it."""

    def __init__(self, words: str, parent: QWidget | None = None, about: str = "") -> None:
        super().__init__(parent)
        self.setText(words)
        self.setToolTip(about)
        self.setProperty("kind", "tab")
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
