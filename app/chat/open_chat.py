"""A chat in memory, and where its conversation stands; without Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.chat.answer import Answer
from app.chat.tree import MessageTree
from app.store.records import Chat

Phase = Literal["idle", "waiting", "prefilling", "streaming", "stopping"]


@dataclass(slots=True)
class OpenChat:
    """A chat with all its messages."""

    chat: Chat
    tree: MessageTree


@dataclass(frozen=True, slots=True)
class ChatState:
    """Where the conversation on show stands; the prefill numbers, as in Answer, are 0 unless it prefills."""

    phase: Phase = "idle"
    prefill_done: int = 0
    prefill_total: int = 0
    cached: int = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return self.phase != "idle"


def state_of(answer: Answer | None) -> ChatState:
    """The state of a conversation whose last message is this answer; None for one that is complete."""
    if answer is None:
        return ChatState()
    if answer.cancelled:
        return ChatState("stopping")
    if answer.phase == "prefilling":
        return ChatState("prefilling", answer.prefill_done, answer.prefill_total, answer.cached)
    return ChatState(answer.phase)
