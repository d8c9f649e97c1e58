"""The list of chats: newest first, searched, renamed, deleted with a way back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from dataclasses import replace
from math import inf, nextafter

from PySide6.QtCore import QObject, Signal

from app.store.chats import ChatStore
from app.store.face import Store
from app.store.records import Chat, SearchHit
from engine import ChatMemory, ChatsCached, Event


class ChatListViewModel(QObject):
    """The chats on show: all of them, or those that a search found.

    Signals: `rows_changed(tuple of SearchHit)`; `current_changed(chat id or None)`; `memory_changed(memory
    by chat id)`; `answering_changed(chat ids)`; `drafts_changed(chat ids)`; and for the conversation:
    `renamed(chat id, title)`, `deleted(Chat)`.
    """

    rows_changed = Signal(object)
    current_changed = Signal(object)
    memory_changed = Signal(object)
    answering_changed = Signal(object)
    drafts_changed = Signal(object)
    renamed = Signal(str, str)
    deleted = Signal(object)

    def __init__(self, store: Store, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._chats: list[Chat] = []
        self._hits: tuple[SearchHit, ...] | None = None
        self._query = ""
        self._current: str | None = None
        self._memory: Mapping[str, ChatMemory] | None = None
        self._answering: Set[str] = frozenset()
        self._drafts: Set[str] = frozenset()

    @property
    def answering(self) -> Set[str]:
        """The chats that an answer is on its way for."""
        return self._answering

    @property
    def drafts(self) -> Set[str]:
        """The chats in which something is written and not sent."""
        return self._drafts

    @property
    def memory(self) -> Mapping[str, ChatMemory]:
        """Where the pages of chats lie, as the engine said last; a chat that is not in it has none."""
        return self._memory or {}

    @property
    def memory_is_told(self) -> bool:
        """Whether the engine has said anything of it yet."""
        return self._memory is not None

    @property
    def rows(self) -> tuple[SearchHit, ...]:
        """What the list shows."""
        return self._hits if self._hits is not None else tuple(SearchHit(chat, "") for chat in self._chats)

    @property
    def query(self) -> str:
        """What is searched for; "" while the whole list is on show."""
        return self._query

    def load(self) -> None:
        """Read the list from the store."""
        self._store.ask(lambda store: store.chats(), self._loaded)

    def find(self, chat_id: str) -> Chat | None:
        """The chat with this id, if it is in the list."""
        return next((chat for chat in self._chats if chat.id == chat_id), None)

    def title_of(self, chat_id: str) -> str:
        """The chat's title; "" when it is not in the list."""
        chat = self.find(chat_id)
        return chat.title if chat else ""

    def moment_of(self, chat_id: str) -> float:
        """When a chat is used now, in seconds: behind all others, also those that a clock ahead has dated."""
        others = max((chat.updated for chat in self._chats if chat.id != chat_id), default=0.0)
        own = self.find(chat_id)
        return max(time.time(), nextafter(others, inf), own.updated if own else 0.0)

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        if isinstance(event, ChatsCached) and event.chats != self._memory:
            self._memory = event.chats
            self.memory_changed.emit(event.chats)

    def upsert(self, chat: Chat) -> None:
        """A chat was begun or continued: it moves to the top."""
        self._chats = [chat, *(other for other in self._chats if other.id != chat.id)]
        self._chats.sort(key=lambda other: other.updated, reverse=True)
        self._refresh()

    def set_current(self, chat_id: str | None) -> None:
        """Mark the chat that is open."""
        if chat_id != self._current:
            self._current = chat_id
            self.current_changed.emit(chat_id)

    def set_answering(self, chats: Set[str]) -> None:
        """Mark the chats that an answer is on its way for."""
        self._answering = chats
        self.answering_changed.emit(chats)

    def set_drafts(self, chats: Set[str]) -> None:
        """Mark the chats in which something is written and not sent."""
        self._drafts = chats
        self.drafts_changed.emit(chats)

    def search(self, query: str) -> None:
        """Show the chats that contain every word of `query`; all of them when it is blank."""
        self._query = query.strip()
        if not self._query:
            self._hits = None
            self.rows_changed.emit(self.rows)
            return
        asked = self._query

        def find(store: ChatStore) -> list[SearchHit]:
            # On the store's thread, where a letter or two may take seconds: by now more may have been typed.
            return store.search(asked) if self._query == asked else []

        def show(hits: list[SearchHit]) -> None:
            if self._query == asked:
                self._hits = tuple(hits)
                self.rows_changed.emit(self.rows)

        self._store.ask(find, show)

    def rename(self, chat_id: str, title: str) -> None:
        """Give a chat another title; a blank one changes nothing."""
        title = " ".join(title.split())
        chat = self.find(chat_id)
        if not title or chat is None or chat.title == title:
            return
        self._chats = [replace(other, title=title) if other.id == chat_id else other for other in self._chats]
        self._store.change(lambda store: store.rename(chat_id, title))
        self.renamed.emit(chat_id, title)
        self._refresh()

    def delete(self, chat_id: str) -> None:
        """Take a chat out of the list; `undo_delete` brings it back until the app starts anew."""
        chat = self.find(chat_id)
        if chat is None:
            return
        self._chats.remove(chat)
        self._store.change(lambda store: store.trash(chat_id))
        self.deleted.emit(chat)
        self._refresh()

    def undo_delete(self, chat: Chat) -> None:
        """Bring a deleted chat back."""
        self._store.change(lambda store: store.restore(chat.id))
        self.upsert(chat)

    def _loaded(self, chats: list[Chat]) -> None:
        known = {chat.id for chat in self._chats}
        self._chats += [chat for chat in chats if chat.id not in known]
        self._chats.sort(key=lambda chat: chat.updated, reverse=True)
        self._refresh()

    def _refresh(self) -> None:
        if self._query:
            self.search(self._query)
        else:
            self.rows_changed.emit(self.rows)
