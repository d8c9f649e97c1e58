"""The column at the left: new chat, search, and the list of chats."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.chat.chat_list import ChatListViewModel
from app.chat.chat_list_view import ChatListView
from app.chat.pins import PinsViewModel
from app.icons import icon
from app.store.records import SearchHit
from app.theme import Theme
from app.widgets.icon_button import IconButton

WIDTH = 264

NO_CHATS = "Your chats will be listed here."
NOTHING_FOUND = "No chat contains these words."


class _Search(QLineEdit):
    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Escape ends the search; on an empty field it is the window's."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        else:
            super().keyPressEvent(event)


class Sidebar(QWidget):
    """Shows a ChatListViewModel, with pins. Intents: `new_wanted`, `chosen(chat id)`."""

    new_wanted = Signal()
    chosen = Signal(str)

    def __init__(
        self,
        appearance: Appearance,
        chats: ChatListViewModel,
        pins: PinsViewModel,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedWidth(WIDTH)
        self._chats = chats
        self._new = IconButton(appearance, "new-chat", "New chat", colour="text")
        self._new.clicked.connect(self.new_wanted)
        self._search = _Search()
        self._search.setPlaceholderText("Search")
        self._search.setAccessibleName("Search your chats")
        self._search.setClearButtonEnabled(True)
        self._search_icon = QAction(self)
        self._search.addAction(self._search_icon, QLineEdit.ActionPosition.LeadingPosition)
        self._search.textChanged.connect(chats.search)
        self._list = ChatListView(appearance)
        self._hint = QLabel()
        self._hint.setProperty("role", "muted")
        self._hint.setWordWrap(True)
        self._hint.setContentsMargins(20, 8, 16, 8)
        self._arrange()
        self._connect(chats, pins)
        appearance.changed.connect(self._paint)
        self._paint(appearance.theme)
        self._show_rows(chats.rows)
        if chats.memory_is_told:
            self._list.show_memory(chats.memory)
        self._list.show_pins(pins.pinned)
        self._list.show_answering(chats.answering)
        self._list.show_drafts(chats.drafts)

    @property
    def list(self) -> ChatListView:
        """The list of chats."""
        return self._list

    @property
    def search_field(self) -> QLineEdit:
        """Where a search is typed."""
        return self._search

    @property
    def hint(self) -> str:
        """What stands there in place of chats."""
        return self._hint.text() if not self._hint.isHidden() else ""

    def focus_search(self) -> None:
        """Put the cursor into the search field."""
        self._search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._search.selectAll()

    def _arrange(self) -> None:
        title = QLabel("Chats")
        title.setObjectName("sidebarTitle")
        header = QHBoxLayout()
        header.setContentsMargins(20, 6, 8, 6)
        header.addWidget(title, 1)
        header.addWidget(self._new)
        search = QHBoxLayout()
        search.setContentsMargins(12, 0, 12, 8)
        search.addWidget(self._search)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 1, 0)
        column.setSpacing(0)
        column.addLayout(header)
        column.addLayout(search)
        column.addWidget(self._hint)
        column.addWidget(self._list, 1)

    def _connect(self, chats: ChatListViewModel, pins: PinsViewModel) -> None:
        self._list.chosen.connect(self.chosen)
        self._list.renamed.connect(chats.rename)
        self._list.pin_wanted.connect(pins.pin)
        self._list.deleted.connect(chats.delete)
        chats.rows_changed.connect(self._show_rows)
        chats.current_changed.connect(self._list.set_current)
        chats.memory_changed.connect(self._list.show_memory)
        chats.answering_changed.connect(self._list.show_answering)
        chats.drafts_changed.connect(self._list.show_drafts)
        pins.changed.connect(self._list.show_pins)

    @Slot(object)
    def _show_rows(self, rows: tuple[SearchHit, ...]) -> None:
        self._list.show_rows(rows)
        self._hint.setText(NOTHING_FOUND if self._chats.query else NO_CHATS)
        self._hint.setVisible(not rows)

    @Slot(object)
    def _paint(self, theme: Theme) -> None:
        self._search_icon.setIcon(icon("search", theme.muted, 16))
