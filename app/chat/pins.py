"""Chats whose pages are to stay in memory: the wish, which the store keeps and the engine is told."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app import text
from app.store.face import Store
from engine import ChatMemory, Command, Event, ModelReady, Pin


class PinsViewModel(QObject):
    """The pinned chats; `changed(frozenset of chat ids)`."""

    changed = Signal(object)

    def __init__(
        self, submit: Callable[[Command], None], store: Store, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._submit = submit
        self._store = store
        self._pinned: frozenset[str] = frozenset()
        self._deleted: frozenset[str] = frozenset()

    @property
    def pinned(self) -> frozenset[str]:
        """Ids of the chats whose pages are to stay in memory."""
        return self._pinned

    def load(self) -> None:
        """Read them from the store; to be asked before the list of chats, so that nobody is quicker."""
        self._store.ask(lambda store: store.pinned(), self._loaded)

    def pin(self, chat_id: str, wanted: bool) -> None:
        """Keep the pages of a chat in memory, or let go of them."""
        if wanted == (chat_id in self._pinned):
            return
        self._store.change(lambda store: store.pin(chat_id, wanted))
        self._submit(Pin(chat_id, wanted))
        self._set(self._pinned ^ {chat_id})

    def renew(self, chat_id: str) -> None:
        """The engine was told to forget the chat's pages, and its pin, which holds for later ones."""
        self._tell(self._pinned & {chat_id})

    def forget(self, chat_id: str) -> None:
        """The chat was deleted, and the engine told to forget it, with its pin; `restore` brings it back."""
        self._deleted |= self._pinned & {chat_id}
        self._set(self._pinned - {chat_id})

    def restore(self, chat_id: str) -> None:
        """The chat was brought back: pinned, if it was pinned before."""
        if chat_id in self._deleted:
            self._deleted -= {chat_id}
            self._submit(Pin(chat_id, True))
            self._set(self._pinned | {chat_id})

    def handle(self, event: Event) -> None:
        """Take in an engine event: a model that has just been loaded knows of no pins."""
        if isinstance(event, ModelReady):
            self._tell(self._pinned)

    def _loaded(self, chats: list[str]) -> None:
        # A model may be ready already; where none is, they are told again when one is.
        self._tell(frozenset(chats) - self._pinned)
        self._set(self._pinned | frozenset(chats))

    def _tell(self, chats: frozenset[str]) -> None:
        for chat_id in sorted(chats):
            self._submit(Pin(chat_id, True))

    def _set(self, pinned: frozenset[str]) -> None:
        if pinned != self._pinned:
            self._pinned = pinned
            self.changed.emit(pinned)


def pin_words(memory: ChatMemory | None) -> str:
    """What being pinned means for a chat whose pages lie like this."""
    return text.PINNED if memory and memory.memory_bytes else text.PINNED_COLD
