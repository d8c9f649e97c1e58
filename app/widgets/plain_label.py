"""Labels for words that may come from elsewhere."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget


def plain_label(
    said: str = "", role: str = "", parent: QWidget | None = None, *, selectable: bool = False
) -> QLabel:
    """A label that breaks lines, of plain text; `role` as in the style sheets, "" is usual text.

    `selectable`: with the pointer, to be copied.
    """
    label = QLabel(said, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    if role:
        label.setProperty("role", role)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
