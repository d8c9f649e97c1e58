"""Where chats lie, over all models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.events.cache import ChatMemory


def chats_of_all(told: Iterable[Mapping[str, ChatMemory]]) -> Mapping[str, ChatMemory]:
    """What is told of a chat by several models, added up."""
    chats: dict[str, ChatMemory] = {}
    for of_one in told:
        for chat, here in of_one.items():
            other = chats.get(chat, ChatMemory(0, 0, 0))
            chats[chat] = ChatMemory(
                here.memory_bytes + other.memory_bytes,
                here.ssd_bytes + other.ssd_bytes,
                here.shared_bytes + other.shared_bytes,
            )
    return chats
