"""The conversations' store without a thread or a file: the real SQL, answering at once or when told to."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable
from typing import Any

from app.store.chats import ChatStore
from app.store.records import Chat, ChatMessage
from app.store.schema import migrate
from app.store.worker import CHATS_KEPT, Kept


class InstantStore:
    """Takes the place of StoreWorker."""

    def __init__(self) -> None:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        migrate(connection)
        self.chats = ChatStore(connection)
        weakref.finalize(self, connection.close)  # an open one is a warning since Python 3.13

    def save(self, value: Kept) -> None:
        """Save now."""
        CHATS_KEPT.save(self.chats, value)

    def ask(
        self,
        question: Callable[[ChatStore], Any],
        then: Callable[[Any], None],
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Answer now."""
        then(question(self.chats))

    def change(
        self,
        change: Callable[[ChatStore], object],
        then: Callable[[], None] | None = None,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Change now."""
        change(self.chats)
        if then is not None:
            then()


class LateStore(InstantStore):
    """Answers a question when it is told to, as of then."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[tuple[Callable[[], None], Callable[[str], None] | None]] = []

    def ask(
        self,
        question: Callable[[ChatStore], Any],
        then: Callable[[Any], None],
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Keep the question."""
        self.late.append((lambda: then(question(self.chats)), failed))

    def answer(self) -> None:
        """Answer the question that was asked first."""
        self.late.pop(0)[0]()

    def fail(self) -> None:
        """Say that the question that was asked first has no answer."""
        failed = self.late.pop(0)[1]
        assert failed
        failed("the disk is broken")


def store_of(*chats: tuple[str, float]) -> InstantStore:
    """A store with a chat of each title, which is its id too, last changed then; each asks about llamas."""
    store = InstantStore()
    for title, updated in chats:
        message = ChatMessage(title, "user", f"about {title} llamas")
        store.save(Chat(title, id=title, leaf_id=message.id, created=updated, updated=updated))
        store.save(message)
    return store
