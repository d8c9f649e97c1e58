"""A button whose words may be longer than there is room for."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QStyle, QStyleOptionButton

from app.text import unmarked, untagged


class FittingButton(QPushButton):
    """Shows as many of `words` as there is room for."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self._shown = ""
        self.setAccessibleName(words)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._show(words)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """What all of its words need."""
        width = self.fontMetrics().horizontalAdvance
        return super().sizeHint() + QSize(width(self.words) - width(self._shown), 0)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Its words do not keep what it is in from being narrow."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Show as much as there is room for now."""
        super().resizeEvent(event)
        option = QStyleOptionButton()
        self.initStyleOption(option)
        room = self.style().subElementRect(QStyle.SubElement.SE_PushButtonContents, option, self)
        shown = self.fontMetrics().elidedText(self.words, Qt.TextElideMode.ElideRight, room.width())
        self._show(shown)
        self.setToolTip(untagged(self.words) if shown != self.words else "")

    def _show(self, words: str) -> None:
        self._shown = words
        self.setText(unmarked(words))
