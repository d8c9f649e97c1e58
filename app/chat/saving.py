"""What conversations need of the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from app.store.chats import ChatStore
from app.store.records import Chat, ChatMessage


class Saver(Protocol):
    """What saves chats and messages; `StoreWorker` is one."""

    def save(self, value: Chat | ChatMessage) -> None:
        """Save the value soon."""
        ...


class Store(Saver, Protocol):
    """What a conversation needs of the store; `StoreWorker` is one."""

    def ask(
        self, question: Callable[[ChatStore], list[ChatMessage]], then: Callable[[list[ChatMessage]], None]
    ) -> None:
        """Answer later, on this thread."""
        ...
