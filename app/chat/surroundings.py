"""What the transcript asks about a message, beyond the message itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.chat.tree import Versions
from app.store.records import ChatMessage


class Surroundings(Protocol):
    """What there is around a message; a conversation is it."""

    def versions(self, message_id: str) -> Versions:
        """Which of its versions it is."""
        ...

    def together(self, message_id: str) -> Sequence[ChatMessage]:
        """The answers on show side by side with it until one is kept, itself among them."""
        ...

    def ways_out(self, message_id: str) -> Sequence[str]:
        """What would let it run, where it was refused."""
        ...
