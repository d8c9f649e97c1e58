"""The button that floats over the end of a conversation and leads to its newest words."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.appearance import Appearance
from app.widgets.icon_button import IconButton

MARGIN = 16


class JumpButton(IconButton):
    """Hidden until it is wanted."""

    def __init__(self, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(appearance, "arrow-down", "Jump to the newest words", colour="text", parent=parent)
        self.setObjectName("jumpButton")
        self.hide()

    def place(self, across: int, down: int) -> None:
        """Stand in the middle of `across` pixels, over the end of `down` pixels."""
        self.move((across - self.width()) // 2, down - self.height() - MARGIN)
