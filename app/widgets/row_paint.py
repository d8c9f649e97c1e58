"""What rows of lists have in common: lines of text, and the font of the second ones."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFont, QPainter

_SMALL_PX = 12


def paint_line(painter: QPainter, room: QRect, words: str, colour: str, font: QFont) -> None:
    """One line of text in the middle of `room`, from its left on; cut at its end where it is too long.

    It is read in its own direction: the end of one in Hebrew is on the left.
    """
    painter.setFont(font)
    painter.setPen(QColor(colour))
    painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)
    shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, room.width())
    left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute
    painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | left, shown)


def small(font: QFont) -> QFont:
    """The font of second lines and labels."""
    made = QFont(font)
    made.setPixelSize(_SMALL_PX)
    return made
