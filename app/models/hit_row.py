"""How a repository of the Hub is painted in a list: its name, whose it is, what it is, and a label."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.appearance import Appearance
from app.models.hit_list_model import LISTED_ROLE, Listed
from app.models.row_paint import INSET, PADDING, paint_ground, paint_label, paint_line, small, strong

HEIGHT = 56
GAP = 8

Index = QModelIndex | QPersistentModelIndex


class HitRow(QStyledItemDelegate):
    """Paints rows, all equally high."""

    def __init__(self, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(parent)
        self._appearance = appearance

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """All rows are equally high."""
        return QSize(200, HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """The name without its owner, who stands in the second line."""
        theme = self._appearance.theme
        row: Listed = index.data(LISTED_ROLE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_ground(painter, option, theme)
        room = option.rect.adjusted(INSET + PADDING, 0, -INSET - PADDING, 0)
        title = room.adjusted(0, 9, 0, -HEIGHT // 2 + 1)
        if row.label:
            left = paint_label(
                painter,
                title.right(),
                title.center().y() + 1,
                row.label,
                theme.notice,
                theme.notice_soft,
                small(option.font),
            )
            title.setRight(left - GAP)
        owner, _, name = row.repo.rpartition("/")
        ink = theme.muted if row.unsupported else theme.text
        paint_line(painter, title, name, ink, strong(option.font))
        line = " · ".join(part for part in (owner, row.unsupported or row.line) if part)
        paint_line(painter, room.adjusted(0, HEIGHT // 2, 0, -9), line, theme.muted, small(option.font))
        painter.restore()
