"""Going into a list by the keys."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView


def enter_list(view: QAbstractItemView) -> None:
    """Give the list the keys, on its current row or else its first; nothing happens while it is empty."""
    rows = view.model()
    if rows.rowCount():
        view.setFocus(Qt.FocusReason.TabFocusReason)
        if not view.currentIndex().isValid():
            view.setCurrentIndex(rows.index(0, 0))
