"""A column of a dialog that scrolls where the screen is too low for it, and tells how high it would be."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.widgets.key_frame import KeyFrame


class FittingScroll(QScrollArea):
    """Shows `column`; `grown` when its words may take more lines than before."""

    grown = Signal()

    def __init__(self, column: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._column = column
        self.setObjectName("dialogScroll")
        column.setObjectName("dialogColumn")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(column)
        KeyFrame(self)

    def wanted_height(self) -> int:
        """Pixels at which nothing need be scrolled, at the width that it has."""
        layout = self._column.layout()
        assert layout is not None
        return layout.heightForWidth(self.viewport().width())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """See what the column wants; QScrollArea listens there already."""
        is_taken = super().eventFilter(watched, event)
        if watched is self._column and event.type() == QEvent.Type.LayoutRequest:
            self.grown.emit()
        return is_taken
