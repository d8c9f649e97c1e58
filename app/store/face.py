"""The face of the store of chats: what everyone who shows, saves or changes chats asks of its thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from app.store.chats import ChatStore
from app.store.worker import Kept

T = TypeVar("T")


class Store(Protocol):
    """`StoreWorker` is one; its callbacks come on the caller's thread, as DatabaseWorker has it."""

    def save(self, value: Kept) -> None:
        """Save the value soon."""
        ...

    def ask(
        self,
        question: Callable[[ChatStore], T],
        then: Callable[[T], None],
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Answer later; where there is no answer, `failed` gets a line why."""
        ...

    def change(
        self,
        change: Callable[[ChatStore], object],
        then: Callable[[], None] | None = None,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Change what is stored, later; `then` is told that it is written, `failed` why it never will be."""
        ...
