"""How a model of the library is painted: name, what it is, how it stands, and two buttons."""

from __future__ import annotations

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QMouseEvent, QPainter
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from app import text
from app.appearance import Appearance
from app.icons import icon
from app.library.records import Model
from app.models.library_list_model import MODEL_ROLE, LibraryListModel
from app.models.model_words import model_line
from app.models.row_paint import (
    INSET,
    PADDING,
    label_colours,
    paint_ground,
    paint_label,
    strong,
)
from app.widgets.index import Index
from app.widgets.row_list import NamedRow
from app.widgets.row_paint import paint_line, small

HEIGHT = 56
MORE = 28
BUTTON = QSize(72, 28)
STAR = 16
GAP = 8


class LibraryRow(NamedRow):
    """Paints rows. Clicks on their buttons: `opened(index)` and `more_wanted(index)`."""

    opened = Signal(QModelIndex)
    more_wanted = Signal(QModelIndex)

    def __init__(self, appearance: Appearance, rows: LibraryListModel, parent: QWidget) -> None:
        super().__init__(text.MODEL_NAME, parent)
        self._appearance = appearance
        self._rows = rows

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """All rows are equally high."""
        return QSize(240, HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """The row from the right to the left, so that the words take what room is left."""
        theme = self._appearance.theme
        model: Model = index.data(MODEL_ROLE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_ground(painter, option, theme)
        icon("more", theme.muted, 20).paint(painter, more_rect(option.rect).adjusted(4, 4, -4, -4))
        right = self._paint_button(painter, option, model)
        right = self._paint_label(painter, option, model, right - GAP)
        room = option.rect.adjusted(INSET + PADDING, 0, 0, 0)
        room.setRight(right - GAP)
        title = room.adjusted(0, 9, 0, -HEIGHT // 2 + 1)
        if model.favourite:
            star = QRect(title.left(), title.center().y() - STAR // 2 + 1, STAR, STAR)
            icon("star-full", theme.accent, STAR).paint(painter, star)
            title.adjust(STAR + 5, 0, 0, 0)
        here = model.is_runnable
        paint_line(painter, title, model.name, theme.text if here else theme.muted, strong(option.font))
        words = room.adjusted(0, HEIGHT // 2, 0, -9)
        paint_line(painter, words, model_line(model), theme.muted, small(option.font))
        painter.restore()

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Where the name stands."""
        editor.setGeometry(option.rect.adjusted(INSET + 2, 10, -220, -10))

    def editorEvent(  # noqa: N802 (Qt's name)
        self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        """A click on a button is not a choice of the row."""
        if isinstance(event, QMouseEvent):
            place = event.position().toPoint()
            released = event.type() == QEvent.Type.MouseButtonRelease
            if more_rect(option.rect).contains(place):
                if released:
                    self.more_wanted.emit(index)
                return True
            if button_rect(option.rect).contains(place) and self._rows.button_words(index.data(MODEL_ROLE)):
                if released and event.button() == Qt.MouseButton.LeftButton:
                    self.opened.emit(index)
                return True
        return super().editorEvent(event, model, option, index)

    def _paint_button(self, painter: QPainter, option: QStyleOptionViewItem, model: Model) -> int:
        """The button, and where it begins."""
        words = self._rows.button_words(model)
        room = button_rect(option.rect)
        if not words:
            return room.left()
        theme = self._appearance.theme
        painter.setPen(QColor(theme.border))
        painter.setBrush(QColor(theme.surface))
        painter.drawRoundedRect(room, 8, 8)
        painter.setFont(option.font)
        painter.setPen(QColor(theme.text))
        painter.drawText(room, Qt.AlignmentFlag.AlignCenter, words)
        return room.left()

    def _paint_label(self, painter: QPainter, option: QStyleOptionViewItem, model: Model, right: int) -> int:
        words = self._rows.label(model)
        if not words:
            return right
        colour, ground = label_colours(words, self._appearance.theme, option)
        middle = option.rect.center().y() + 1
        return paint_label(painter, right, middle, words, colour, ground, small(option.font))


def more_rect(row: QRect) -> QRect:
    """Where the button for more stands."""
    return QRect(row.right() - INSET - MORE - 4, row.center().y() - MORE // 2 + 1, MORE, MORE)


def button_rect(row: QRect) -> QRect:
    """Where the button stands that opens and unloads."""
    left = more_rect(row).left() - 4 - BUTTON.width()
    return QRect(left, row.center().y() - BUTTON.height() // 2 + 1, BUTTON.width(), BUTTON.height())
