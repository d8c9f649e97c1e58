"""How a repository of the Hub is painted in a list: its name, whose it is, what it is, and a label."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.appearance import Appearance
from app.models.hit_list_model import LISTED_ROLE, Listed
from app.models.row_paint import (
    INSET,
    PADDING,
    label_colours,
    paint_ground,
    paint_label,
    strong,
)
from app.widgets.index import Index
from app.widgets.row_paint import paint_line, small

HEIGHT = 56
HEIGHT_WITH_NOTE = 76
LINE = 18
GAP = 8


class HitRow(QStyledItemDelegate):
    """Paints rows: two lines, or three with a note."""

    def __init__(self, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(parent)
        self._appearance = appearance

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Equally high in one list."""
        return QSize(200, HEIGHT_WITH_NOTE if index.data(LISTED_ROLE).note else HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """The name without its owner, who stands in the second line."""
        theme = self._appearance.theme
        row: Listed = index.data(LISTED_ROLE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_ground(painter, option, theme)
        room = option.rect.adjusted(INSET + PADDING, 0, -INSET - PADDING, 0)
        title = QRect(room.left(), room.top() + 9, room.width(), 20)
        if row.label:
            colour, ground = label_colours(row.label, theme, option)
            middle, font = title.center().y() + 1, small(option.font)
            left = paint_label(painter, title.right(), middle, row.label, colour, ground, font)
            title.setRight(left - GAP)
        ink = theme.muted if row.unsupported else theme.text
        paint_line(painter, title, row.name, ink, strong(option.font))
        line = " · ".join(part for part in (row.owner, row.unsupported or row.line) if part)
        for place, words in enumerate(part for part in (row.note, line) if part):
            under = QRect(room.left(), room.top() + 29 + place * 20, room.width(), LINE)
            paint_line(painter, under, words, theme.muted, small(option.font))
        painter.restore()
