"""The rows of the chat list, for Qt's list view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, Qt, Signal

from app.chat.cache_words import memory_words, place_of
from app.chat.pins import pin_words
from app.store.records import SearchHit
from app.text import ANSWERING, DRAFT, untagged
from app.widgets.index import Index
from engine import ChatMemory

HIT_ROLE = Qt.ItemDataRole.UserRole + 1
PLACE_ROLE = Qt.ItemDataRole.UserRole + 2
"""Where the chat's pages lie: a ChatPlace; None until it is told."""
PINNED_ROLE = Qt.ItemDataRole.UserRole + 3
"""Whether the chat's pages are to stay in memory."""
ANSWERING_ROLE = Qt.ItemDataRole.UserRole + 4
"""Whether an answer is on its way in the chat."""
DRAFT_ROLE = Qt.ItemDataRole.UserRole + 5
"""Whether something is written in the chat and not sent."""


class ChatListModel(QAbstractListModel):
    """Shows search hits, or chats without snippets. An edited title is a wish: `renamed(id, title)`."""

    renamed = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[SearchHit, ...] = ()
        self._memory: Mapping[str, ChatMemory] | None = None
        self._pinned: Set[str] = frozenset()
        self._answering: Set[str] = frozenset()
        self._drafts: Set[str] = frozenset()

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
        if before is None:
            self._tell_rows({row.chat.id for row in self._rows})
        else:
            self._tell_rows(
                {chat for chat in before.keys() | memory.keys() if before.get(chat) != memory.get(chat)}
            )

    def show_pins(self, pinned: Set[str]) -> None:
        """Show which chats' pages are to stay in memory."""
        before, self._pinned = self._pinned, pinned
        self._tell_rows(before ^ pinned)

    def show_answering(self, chats: Set[str]) -> None:
        """Show in which chats an answer is on its way."""
        before, self._answering = self._answering, chats
        self._tell_rows(before ^ chats)

    def show_drafts(self, chats: Set[str]) -> None:
        """Show in which chats something is written and not sent."""
        before, self._drafts = self._drafts, chats
        self._tell_rows(before ^ chats)

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
        """Title and snippet of a row, where its pages lie and whether they stay there, and what goes on."""
        hit = self._rows[index.row()]
        is_told, memory = self._memory is not None, (self._memory or {}).get(hit.chat.id)
        pinned = hit.chat.id in self._pinned
        answering, draft = hit.chat.id in self._answering, hit.chat.id in self._drafts
        told = [
            ANSWERING if answering else "",
            DRAFT if draft else "",
            memory_words(memory) if is_told else "",
            pin_words(memory) if pinned else "",
        ]
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole:
                return hit.chat.title
            case Qt.ItemDataRole.ToolTipRole:
                return "\n".join(part for part in (untagged(hit.chat.title), *told) if part)
            case Qt.ItemDataRole.AccessibleTextRole:
                return ", ".join(part for part in (hit.chat.title, hit.snippet, *told) if part)
            case _ if role == PLACE_ROLE:
                return place_of(memory) if is_told else None
            case _ if role == PINNED_ROLE:
                return pinned
            case _ if role == ANSWERING_ROLE:
                return answering
            case _ if role == DRAFT_ROLE:
                return draft
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

    def _tell_rows(self, chats: Set[str]) -> None:
        for place, row in enumerate(self._rows):
            if row.chat.id in chats:
                self.dataChanged.emit(self.index(place), self.index(place))
