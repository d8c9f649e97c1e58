"""How a row of the chat list is painted: title, found words, where its pages are, and a button for more."""

from __future__ import annotations

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QPointF,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem, QWidget

from app.appearance import Appearance
from app.chat.cache_words import ChatPlace
from app.chat.chat_list_model import ANSWERING_ROLE, DRAFT_ROLE, HIT_ROLE, PINNED_ROLE, PLACE_ROLE
from app.icons import icon
from app.text import ANSWERING, DRAFT
from app.widgets.index import Index
from app.widgets.row_list import NamedRow
from app.widgets.row_paint import paint_line, small

HEIGHT = 36
HEIGHT_WITH_SNIPPET = 56
INSET = 8
PADDING = 18
MORE = 28
DOT = 3.5
"""Radius of the dot before a title: filled for pages in memory, a ring for pages on SSD."""
COLD_DOT = 2.0
"""Radius of the small one of a cold chat; there is none while nothing is told."""
PIN = 14
"""Size of the mark beside the dot of a chat whose pages are to stay in memory."""


class ChatRow(NamedRow):
    """Paints rows; a click on the button asks for the row's menu: `more_wanted(index)`."""

    more_wanted = Signal(QModelIndex)

    def __init__(self, appearance: Appearance, parent: QWidget) -> None:
        super().__init__("Title of the chat", parent)
        self._appearance = appearance

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """One line, or two with a snippet."""
        snippet = index.data(HIT_ROLE).snippet
        return QSize(120, HEIGHT_WITH_SNIPPET if snippet else HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """A rounded ground for the open chat and the one under the pointer."""
        theme = self._appearance.theme
        hit = index.data(HIT_ROLE)
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        focused = bool(option.state & QStyle.StateFlag.State_HasFocus)  # a row also before it is chosen
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if selected or hovered or focused:
            ground = theme.accent_soft if selected else theme.hover if hovered else theme.sidebar
            painter.setPen(QColor(theme.accent) if focused else Qt.PenStyle.NoPen)
            painter.setBrush(QColor(ground))
            painter.drawRoundedRect(option.rect.adjusted(INSET, 1, -INSET, -1), 8, 8)
        room = option.rect.adjusted(
            INSET + PADDING, 0, -INSET - (MORE if selected or hovered else PADDING), 0
        )
        title = room.adjusted(0, 6, 0, -room.height() // 2 + 3) if hit.snippet else room
        under = small(option.font)
        title = self._marked(painter, title, index)
        if (words := _going_on(index)) and not selected:  # of the open chat one sees it
            title = self._behind(painter, title, words, under)
        paint_line(painter, title, hit.chat.title, theme.text, option.font)
        if hit.snippet:
            paint_line(
                painter, room.adjusted(0, room.height() // 2 - 1, 0, -5), hit.snippet, theme.muted, under
            )
        if selected or hovered:
            icon("more", theme.muted, 20).paint(painter, _more_rect(option.rect).adjusted(4, 4, -4, -4))
        painter.restore()

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Where the title stands."""
        editor.setGeometry(option.rect.adjusted(INSET, 2, -INSET, -2))

    def editorEvent(  # noqa: N802 (Qt's name)
        self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        """A click on the button is not a choice of the row."""
        if isinstance(event, QMouseEvent) and _more_rect(option.rect).contains(event.position().toPoint()):
            if event.type() == QEvent.Type.MouseButtonRelease:
                self.more_wanted.emit(index)
            return True
        return super().editorEvent(event, model, option, index)

    def _marked(self, painter: QPainter, title: QRect, index: Index) -> QRect:
        """Paint the marks before a title, and return the room that they leave it."""
        self._dot(painter, title, index.data(PLACE_ROLE))
        if not index.data(PINNED_ROLE):
            return title
        place = QRect(title.left(), title.center().y() - PIN // 2 + 1, PIN, PIN)
        icon("pin", self._appearance.theme.muted, PIN).paint(painter, place)
        return title.adjusted(PIN + 4, 0, 0, 0)

    def _dot(self, painter: QPainter, title: QRect, place: ChatPlace | None) -> None:
        centre = QPointF(title.left() - PADDING / 2 - 1, title.center().y() + 0.5)
        theme = self._appearance.theme
        if place == "cold":
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.muted))
            painter.drawEllipse(centre, COLD_DOT, COLD_DOT)
        elif place is not None:
            colour = QColor(theme.accent if place == "memory" else theme.muted)
            painter.setPen(QPen(colour, 1.5))
            painter.setBrush(colour if place == "memory" else Qt.BrushStyle.NoBrush)
            painter.drawEllipse(centre, DOT, DOT)

    def _behind(self, painter: QPainter, title: QRect, words: str, font: QFont) -> QRect:
        """Paint behind a title what goes on in the chat, and return the room that this leaves it."""
        wide = QFontMetrics(font).horizontalAdvance(words) + 1  # rounded, it may lack part of a pixel
        paint_line(
            painter,
            title.adjusted(title.width() - wide, 0, 0, 0),
            words,
            self._appearance.theme.muted,
            font,
        )
        return title.adjusted(0, 0, -wide - 8, 0)


def _going_on(index: Index) -> str:
    """What goes on in a chat, in a word; "" for nothing."""
    if index.data(ANSWERING_ROLE):
        return ANSWERING
    return DRAFT if index.data(DRAFT_ROLE) else ""


def _more_rect(row: QRect) -> QRect:
    return QRect(row.right() - INSET - MORE, row.center().y() - MORE // 2 + 1, MORE, MORE)
