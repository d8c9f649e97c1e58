"""A list whose rows are renamed in place and have a menu each."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPoint, Qt, Slot
from PySide6.QtGui import QContextMenuEvent, QFocusEvent, QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QLineEdit,
    QListView,
    QMenu,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.widgets.index import Index


class NamedRow(QStyledItemDelegate):
    """Lets a row's name be typed in its place; a subclass paints the row, and says where the name stands."""

    def __init__(self, label: str, parent: QWidget) -> None:
        """`label`: what screen readers call the name."""
        super().__init__(parent)
        self._label = label

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:  # noqa: N802
        """A line to type the new name in."""
        editor = QLineEdit(parent)
        editor.setAccessibleName(self._label)
        return editor

    def setEditorData(self, editor: QWidget, index: Index) -> None:  # noqa: N802 (Qt's name)
        """The name, once: what was typed stays when the list is told something new meanwhile."""
        if not editor.property("filled"):
            editor.setProperty("filled", True)
            super().setEditorData(editor, index)


class RowList(QListView):
    """What the lists of chats and of models have in common; a subclass says what a row's menu holds.

    Rows come and go while a menu is open: what is chosen there is of the row that it was opened for.
    """

    def __init__(self, parent: QWidget | None = None, *, menu_at: QPoint) -> None:
        """`menu_at`: how far to the left of a row's lower right corner, and above it, its menu opens."""
        super().__init__(parent)
        self._menu_at = menu_at
        self._later: Callable[[], None] | None = None
        self.setMouseTracking(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)

    def menu_for(self, index: QModelIndex) -> QMenu:
        """What can be done with the row at `index`."""
        raise NotImplementedError  # a Qt widget cannot be an ABC

    def open_row(self, index: QModelIndex) -> None:
        """Open what the row at `index` stands for."""
        raise NotImplementedError

    def delete_row(self, index: QModelIndex) -> None:
        """Ask for the end of what the row at `index` stands for."""
        raise NotImplementedError

    def type_name(self, index: QModelIndex) -> None:
        """Let the name of the row at `index` be typed in its place; nothing where the row is gone."""
        if index.isValid():
            self.edit(index)

    def when_named(self, show: Callable[[], None]) -> None:
        """Call `show`, which brings other rows: at once, or when the name that is being typed is done."""
        is_naming = self.state() == QAbstractItemView.State.EditingState
        self._later = show if is_naming else None
        if not is_naming:
            show()

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:  # noqa: N802
        """A name is done: rows that came meanwhile are shown."""
        super().closeEditor(editor, hint)
        if self._later:
            self.when_named(self._later)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Enter opens, Delete deletes."""
        index = self.currentIndex()
        if self.state() == QAbstractItemView.State.EditingState:
            event.accept()  # the Enter that ends a name comes through the field, and is not for the row
        elif index.isValid() and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            if not event.isAutoRepeat():  # the next one was not meant
                self.delete_row(index)
        elif index.isValid() and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.open_row(index)
        else:
            super().keyPressEvent(event)

    def reset(self) -> None:
        """Other rows: where there are none, the Tab key does not stop."""
        super().reset()
        rows, policy = self.model().rowCount(), Qt.FocusPolicy
        self.setFocusPolicy(policy.StrongFocus if rows else policy.NoFocus)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Who comes by the Tab key sees which row the next keys are for."""
        super().focusInEvent(event)
        by_tab = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        if by_tab and not self.currentIndex().isValid():
            first = self.model().index(0, 0)
            self.selectionModel().setCurrentIndex(first, QItemSelectionModel.SelectionFlag.NoUpdate)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 (Qt's name)
        """The row's menu, by the right button or the menu key."""
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        index = self.indexAt(event.pos()) if by_mouse else self.currentIndex()
        if index.isValid():
            self._pop_up(index, event.globalPos() if by_mouse else self._below(index))

    @Slot(QModelIndex)
    def show_menu_at(self, index: QModelIndex) -> None:
        """Open the menu of the row at `index` below it."""
        self._pop_up(index, self._below(index))

    def _below(self, index: QModelIndex) -> QPoint:
        return self.viewport().mapToGlobal(self.visualRect(index).bottomRight() - self._menu_at)

    def _pop_up(self, index: QModelIndex, place: QPoint) -> None:
        menu = self.menu_for(index)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(place)
