"""The chats that have pages, one a row, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app import amounts, text
from app.dashboard.tables import fill, plain_table
from engine import ChatMemory

COLUMNS = ("Chat", "In memory", "On SSD", "Shared", "Kept")
SWATCH = 12


class ChatPagesTable(QWidget):
    """Intents, with a chat's id: `opened`, `pin_wanted(id, whether)`, `release_wanted` and `clear_wanted`."""

    opened = Signal(str)
    pin_wanted = Signal(str, bool)
    release_wanted = Signal(str)
    clear_wanted = Signal(str)

    def __init__(
        self,
        title_of: Callable[[str], str],
        colour_of: Callable[[str], str],
        parent: QWidget | None = None,
    ) -> None:
        """`title_of` and `colour_of` a chat; a title is "" for one that is in no list."""
        super().__init__(parent)
        self._title_of, self._colour_of = title_of, colour_of
        self._shown: list[tuple[str, tuple[str, ...], str]] = []
        self.table = plain_table(self, COLUMNS, "Chats that have pages")
        if shared := self.table.horizontalHeaderItem(COLUMNS.index("Shared")):
            shared.setToolTip("With other chats, of what is in memory and on SSD together")
        self.open_button = QPushButton("Open chat", self)
        self.pin_button = QPushButton(text.PIN, self)
        self.release_button = QPushButton("Free memory now", self)
        self.clear_button = QPushButton("Clear", self)
        self.release_button.setToolTip("Free the memory of its pages; those on SSD come back from there")
        self.clear_button.setToolTip("Forget its pages, on SSD too: its next message is read anew")
        buttons = QHBoxLayout()
        self._buttons = (self.open_button, self.pin_button, self.release_button, self.clear_button)
        for button in self._buttons:
            button.setProperty("kind", "keep")
            buttons.addWidget(button)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.table)
        column.addLayout(buttons)
        self.open_button.clicked.connect(lambda: self.opened.emit(self.selected))
        self.pin_button.clicked.connect(lambda: self.pin_wanted.emit(self.selected, not self._is_pinned))
        self.release_button.clicked.connect(lambda: self.release_wanted.emit(self.selected))
        self.clear_button.clicked.connect(lambda: self.clear_wanted.emit(self.selected))
        self.table.itemSelectionChanged.connect(self._show_buttons)
        self.table.cellDoubleClicked.connect(lambda: self.open_button.click())
        self.show_chats({}, frozenset())

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """What it says."""
        return [words for _, words, _ in self._shown]

    @property
    def selected(self) -> str:
        """The chat that is chosen; "" for none."""
        row = self.table.currentRow()
        chosen = self.table.selectionModel().hasSelection() and 0 <= row < len(self._shown)
        return self._shown[row][0] if chosen else ""

    def select(self, chat: str) -> None:
        """Choose a chat, if it has pages."""
        for row, (shown, _, _) in enumerate(self._shown):
            if shown == chat:
                self.table.selectRow(row)

    def show_chats(self, chats: Mapping[str, ChatMemory], pinned: Collection[str]) -> None:
        """Show the chats that have pages, those with most in memory first."""
        order = sorted(
            chats, key=lambda chat: (-chats[chat].memory_bytes, -chats[chat].ssd_bytes, self._title_of(chat))
        )
        rows = [(chat, self._row(chat, chats[chat], chat in pinned), self._colour_of(chat)) for chat in order]
        if rows == self._shown and rows:
            return
        chosen = self.selected
        self._shown = rows
        fill(self.table, self.rows, most=8)
        for place, (_, _, colour) in enumerate(rows):
            item = self.table.item(place, 0)
            if item is not None:
                item.setIcon(_swatch(colour))
        if chosen != self.selected:
            self.table.selectionModel().clear()
            self.select(chosen)
        self._show_buttons()

    @property
    def _is_pinned(self) -> bool:
        return any(chat == self.selected and words[-1] for chat, words, _ in self._shown)

    @Slot()
    def _show_buttons(self) -> None:
        chat = self.selected
        if not chat and any(button.hasFocus() for button in self._buttons):
            self.table.setFocus()  # or the next in the window would have it
        self.open_button.setEnabled(bool(chat and self._title_of(chat)))
        self.pin_button.setEnabled(bool(chat))
        self.pin_button.setText(text.UNPIN if self._is_pinned else text.PIN)
        self.release_button.setEnabled(bool(chat) and not self._is_pinned)
        self.clear_button.setEnabled(bool(chat))

    def _row(self, chat: str, memory: ChatMemory, is_pinned: bool) -> tuple[str, ...]:
        return (
            self._title_of(chat) or "Not in the list",
            amounts.size(memory.memory_bytes) if memory.memory_bytes else "–",
            amounts.size(memory.ssd_bytes) if memory.ssd_bytes else "–",
            amounts.size(memory.shared_bytes) if memory.shared_bytes else "–",
            text.KEPT_IN_MEMORY if is_pinned else "",
        )


def _swatch(colour: str) -> QIcon:
    image = QPixmap(SWATCH, SWATCH)
    image.fill(QColor(colour))
    return QIcon(image)
