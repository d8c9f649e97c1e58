"""What is written in each chat and not sent: shown with its chat, and saved while it is written."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.chat.conversation import ConversationViewModel
from app.store.chats import ChatStore
from app.store.face import Store
from app.store.records import Draft, storable

SAVE_INTERVAL_MS = 500


class DraftsViewModel(QObject):
    """The drafts of all chats, and of the one that is not begun.

    Signals: `shown(text)`: another is to be written on; `changed(frozenset of chat ids)` with words in them.

    All are in memory from the start on: a chat that comes on show waits for no store. Until they have been
    read nothing is saved, and what is typed meanwhile goes behind what the store has.
    """

    shown = Signal(str)
    changed = Signal(object)

    def __init__(
        self, store: Store, conversation: ConversationViewModel, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._conversation = conversation
        self._texts: dict[str, str] = {}
        self._unsaved: set[str] = set()
        self._worded: frozenset[str] = frozenset()
        self._chat_id = ""
        self._is_read = False
        self._is_asked = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SAVE_INTERVAL_MS)
        self._timer.timeout.connect(self.save_now)
        conversation.opened.connect(self._switch)
        conversation.asked.connect(self._follow)

    @property
    def text(self) -> str:
        """What is written in the chat on show."""
        return self._texts.get(self._chat_id, "")

    def load(self) -> None:
        """Read from the store what was written before."""
        self._is_asked = True
        self._store.ask(lambda store: store.drafts(), self._take, self._ask_again_later)

    @Slot(str)
    def write(self, text: str) -> None:
        """What is written now in the chat on show."""
        text = storable(text)
        if text != self.text:
            self._put(self._chat_id, text)

    def clear(self) -> None:
        """What was written is sent: the store is to have it once."""
        self.write("")
        self.save_now()
        self.shown.emit("")

    @Slot()
    def save_now(self) -> None:
        """Save what has changed since the last time."""
        self._timer.stop()
        if self._is_read:
            for chat_id in self._unsaved:
                self._store.save(Draft(chat_id, self._texts[chat_id]))
            self._unsaved.clear()
        elif not self._is_asked:
            self.load()

    def close(self) -> None:
        """Save what has changed, also where the store has not said yet what it has."""
        if self._is_read:
            self.save_now()
            return
        typed = dict(self._texts)

        def change(store: ChatStore) -> None:
            for chat_id, text in _behind(store.drafts(), typed).items():
                store.save_draft(Draft(chat_id, text))

        self._store.change(change)

    def _put(self, chat_id: str, text: str) -> None:
        self._texts[chat_id] = text
        self._unsaved.add(chat_id)
        if _has_words(text) != (chat_id in self._worded):
            self._set_worded(self._worded ^ {chat_id})
        if not self._timer.isActive():
            self._timer.start()

    def _set_worded(self, chats: frozenset[str]) -> None:
        if chats != self._worded:
            self._worded = chats
            self.changed.emit(chats)

    def _take(self, stored: dict[str, str]) -> None:
        typed = self.text
        self._is_read = True
        self._texts = _behind(stored, self._texts)
        self._set_worded(frozenset(chat_id for chat_id, text in self._texts.items() if _has_words(text)))
        self.save_now()
        if self.text != typed:
            self.shown.emit(self.text)

    def _ask_again_later(self, reason: str) -> None:
        """The list of chats was not read either, and says so; typing asks again."""
        self._is_asked = False

    def _shown_id(self) -> str:
        return self._conversation.chat.id if self._conversation.chat else ""

    @Slot()
    def _switch(self) -> None:
        """Another conversation is on show."""
        self.save_now()
        if self._chat_id != self._shown_id():
            self._chat_id = self._shown_id()
            self.shown.emit(self.text)

    @Slot()
    def _follow(self) -> None:
        """Something was asked; with its first message the new chat is one, and what is written is its own."""
        if self._chat_id != self._shown_id():
            text, self._chat_id = self.text, self._shown_id()
            self._put("", "")
            self._put(self._chat_id, text)


def _has_words(text: str) -> bool:
    return bool(text) and not text.isspace()


def _behind(stored: Mapping[str, str], typed: Mapping[str, str]) -> dict[str, str]:
    """What was typed in each chat, behind what the store has of it."""
    both = {chat_id: "\n".join(filter(None, (stored.get(chat_id), text))) for chat_id, text in typed.items()}
    return {**stored, **both}
