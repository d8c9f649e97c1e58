"""The rows of the chat list, for Qt's list view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from app.chat.cache_words import memory_words, place_of
from app.store.records import SearchHit
from engine import ChatMemory

HIT_ROLE = Qt.ItemDataRole.UserRole + 1
PLACE_ROLE = Qt.ItemDataRole.UserRole + 2
"""Where the chat's pages lie: a ChatPlace."""

Index = QModelIndex | QPersistentModelIndex


class ChatListModel(QAbstractListModel):
    """Shows search hits, or chats without snippets. An edited title is a wish: `renamed(id, title)`."""

    renamed = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[SearchHit, ...] = ()
        self._memory: Mapping[str, ChatMemory] = {}

    def show_rows(self, rows: Sequence[SearchHit]) -> None:
        """Replace the rows; where only their content changed, views keep their place."""
        old = [row.chat.id for row in self._rows]
        if [row.chat.id for row in rows] == old:
            self._rows = tuple(rows)
            if rows:
                self.dataChanged.emit(self.index(0), self.index(len(rows) - 1))
            return
        self.beginResetModel()
        self._rows = tuple(rows)
        self.endResetModel()

    def show_memory(self, memory: Mapping[str, ChatMemory]) -> None:
        """Show where the chats' pages lie."""
        before, self._memory = self._memory, memory
        for place, row in enumerate(self._rows):
            if before.get(row.chat.id) != memory.get(row.chat.id):
                self.dataChanged.emit(self.index(place), self.index(place))

    def hit(self, index: Index) -> SearchHit:
        """The row at `index`."""
        return self._rows[index.row()]

    def index_of(self, chat_id: str | None) -> QModelIndex:
        """Where the chat stands; an invalid index when it does not."""
        for place, row in enumerate(self._rows):
            if row.chat.id == chat_id:
                return self.index(place)
        return QModelIndex()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 (Qt's signature)
        """How many rows there are."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Title and snippet of a row, and where its pages lie."""
        hit = self._rows[index.row()]
        memory = self._memory.get(hit.chat.id)
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole:
                return hit.chat.title
            case Qt.ItemDataRole.ToolTipRole:
                return f"{hit.chat.title}\n{memory_words(memory)}".strip()
            case Qt.ItemDataRole.AccessibleTextRole:
                return ", ".join(part for part in (hit.chat.title, hit.snippet, memory_words(memory)) if part)
            case _ if role == PLACE_ROLE:
                return place_of(memory)
            case _ if role == HIT_ROLE:
                return hit
            case _:
                return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:  # noqa: N802
        """Wish for another title."""
        self.renamed.emit(self._rows[index.row()].chat.id, str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Rows can be selected, and their titles edited."""
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable
