"""The list of chats as a widget: choose, rename in place, keep in memory, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPoint, Signal, Slot
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QMenu, QWidget

from app import text
from app.appearance import Appearance
from app.chat.chat_list_model import PINNED_ROLE, ChatListModel
from app.chat.chat_row import ChatRow
from app.icons import icon
from app.opening.opening_words import COPY_LINK, EXPORT, IMPORT
from app.store.records import SearchHit
from app.widgets.row_list import RowList
from engine import ChatMemory


class ChatListView(RowList):
    """Shows the chats.

    Intents: `chosen(chat id)`, `renamed(chat id, title)`, `deleted(chat id)`,
    `pin_wanted(chat id, whether its pages are to stay in memory)`, and of chats as files
    `export_wanted(chat id)`, `link_wanted(chat id)` and `import_wanted`.
    """

    chosen = Signal(str)
    renamed = Signal(str, str)
    pin_wanted = Signal(str, bool)
    deleted = Signal(str)
    export_wanted = Signal(str)
    link_wanted = Signal(str)
    import_wanted = Signal()

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent, menu_at=QPoint(40, 0))
        self.setObjectName("chatList")
        self.setAccessibleName("Chats")
        self._appearance = appearance
        self._rows = ChatListModel()
        self._current: str | None = None
        row = ChatRow(appearance, self)
        self.setModel(self._rows)
        self.setItemDelegate(row)
        self.clicked.connect(self.open_row)
        self.activated.connect(self.open_row)
        row.more_wanted.connect(self.show_menu_at)
        self._rows.renamed.connect(self.renamed)
        appearance.changed.connect(self.viewport().update)

    def show_rows(self, rows: Sequence[SearchHit]) -> None:
        """Replace what the list shows."""
        self.when_named(lambda: self._show_rows(rows))

    def _show_rows(self, rows: Sequence[SearchHit]) -> None:
        # Thousands of rows are then measured by the first one; those found by a search are few.
        self.setUniformItemSizes(not any(row.snippet for row in rows))
        self._rows.show_rows(rows)
        self.set_current(self._current)

    @Slot(object)
    def show_memory(self, memory: Mapping[str, ChatMemory]) -> None:
        """Show beside each chat where its pages lie."""
        self._rows.show_memory(memory)

    @Slot(object)
    def show_pins(self, pinned: Set[str]) -> None:
        """Mark the chats whose pages are to stay in memory."""
        self._rows.show_pins(pinned)

    @Slot(object)
    def show_answering(self, chats: Set[str]) -> None:
        """Mark the chats that an answer is on its way for."""
        self._rows.show_answering(chats)

    @Slot(object)
    def show_drafts(self, chats: Set[str]) -> None:
        """Mark the chats in which something is written and not sent."""
        self._rows.show_drafts(chats)

    def set_current(self, chat_id: str | None) -> None:
        """Mark the chat that is open."""
        self._current = chat_id
        index = self._rows.index_of(chat_id)
        flags = QItemSelectionModel.SelectionFlag
        self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect if index.isValid() else flags.Clear)

    def titles(self) -> list[str]:
        """The titles on show, from the top."""
        return [self._rows.index(place).data() for place in range(self._rows.rowCount())]

    def menu_for(self, index: QModelIndex) -> QMenu:
        """What can be done with the chat at `index`."""
        colours, chat_id = self._appearance.theme, self._rows.hit(index).chat.id
        menu = QMenu(self)
        rename = menu.addAction(icon("rename", colours.text), "Rename")
        rename.triggered.connect(lambda: self.type_name(self._rows.index_of(chat_id)))
        pinned = bool(index.data(PINNED_ROLE))
        pin = menu.addAction(icon("pin", colours.text), text.UNPIN if pinned else text.PIN)
        pin.triggered.connect(lambda: self.pin_wanted.emit(chat_id, not pinned))
        delete = menu.addAction(icon("trash", colours.text), "Delete")
        delete.triggered.connect(lambda: self.deleted.emit(chat_id))
        menu.addSeparator()
        export = menu.addAction(EXPORT)
        export.triggered.connect(lambda: self.export_wanted.emit(chat_id))
        link = menu.addAction(COPY_LINK)
        link.triggered.connect(lambda: self.link_wanted.emit(chat_id))
        self._add_import(menu)
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 (Qt's name)
        """The row's menu; beside the rows, what needs none."""
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        if by_mouse and not self.indexAt(event.pos()).isValid():
            menu = QMenu(self)
            self._add_import(menu)
            menu.aboutToHide.connect(menu.deleteLater)
            menu.popup(event.globalPos())
        else:
            super().contextMenuEvent(event)

    def _add_import(self, menu: QMenu) -> None:
        menu.addAction(IMPORT).triggered.connect(lambda: self.import_wanted.emit())

    def delete_row(self, index: QModelIndex) -> None:
        """Ask for the chat to be deleted."""
        self.deleted.emit(self._rows.hit(index).chat.id)

    @Slot(QModelIndex)
    def open_row(self, index: QModelIndex) -> None:
        """Choose the chat."""
        self.chosen.emit(self._rows.hit(index).chat.id)
