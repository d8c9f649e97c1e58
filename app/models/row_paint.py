"""What rows of the models page have in common: their ground, labels, and the font of names."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem

from app.theme import Theme

INSET = 8
PADDING = 12
LABEL_HEIGHT = 20
_LABEL_PADDING = 8


def paint_ground(painter: QPainter, option: QStyleOptionViewItem, theme: Theme) -> None:
    """A rounded ground for the selected row and the one under the pointer, and a ring where the keys are."""
    selected = bool(option.state & QStyle.StateFlag.State_Selected)
    hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
    focused = bool(option.state & QStyle.StateFlag.State_HasFocus)  # also before the row is chosen
    painter.setPen(QColor(theme.accent) if focused else Qt.PenStyle.NoPen)
    if selected or hovered:
        painter.setBrush(QColor(theme.accent_soft if selected else theme.hover))
    else:
        painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(option.rect.adjusted(INSET, 1, -INSET, -1), 8, 8)


def paint_label(
    painter: QPainter, right: int, middle: int, words: str, colour: str, ground: str, font: QFont
) -> int:
    """A short word on a ground of its own that ends at `right`; returns where it begins."""
    width = QFontMetrics(font).horizontalAdvance(words) + 2 * _LABEL_PADDING
    room = QRect(right - width, middle - LABEL_HEIGHT // 2, width, LABEL_HEIGHT)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(ground))
    painter.drawRoundedRect(room, LABEL_HEIGHT / 2, LABEL_HEIGHT / 2)
    painter.setFont(font)
    painter.setPen(QColor(colour))
    painter.drawText(room, Qt.AlignmentFlag.AlignCenter, words)
    return room.left()


def label_colours(words: str, theme: Theme, option: QStyleOptionViewItem) -> tuple[str, str]:
    """Ink and ground of a label: calm for what is well, a notice for what is narrow, red for what fails."""
    if words in ("Tight", "Update available", "Gated"):
        return theme.notice, theme.notice_soft
    if words in ("Does not fit", "Gone", "Damaged", "Does not run here"):
        return theme.danger, theme.danger_soft
    if words == "Loaded" or words.startswith("Loading"):
        return theme.on_accent, theme.accent
    selected = bool(option.state & QStyle.StateFlag.State_Selected)
    return theme.text, theme.surface if selected else theme.accent_soft  # a selected row is of that colour


def strong(font: QFont) -> QFont:
    """The font of names."""
    made = QFont(font)
    made.setWeight(QFont.Weight.DemiBold)
    return made
