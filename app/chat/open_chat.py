"""A chat in memory, and where its conversation stands; without Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.chat.answer import Answer
from app.chat.tree import MessageTree
from app.store.records import Chat, ChatMessage

Phase = Literal["idle", "choosing", "waiting", "prefilling", "streaming", "stopping"]


@dataclass(slots=True)
class OpenChat:
    """A chat with all its messages.

    Attributes:
        several: ids of answers to one question that are on show together until one of them is kept.
    """

    chat: Chat
    tree: MessageTree
    several: tuple[str, ...] = ()

    def together(self) -> tuple[ChatMessage, ...]:
        """The answers on show together at the path's end; none where there is one alone."""
        leaf = self.tree.leaf
        ids = self.several if leaf and leaf.id in self.several else ()
        return tuple(self.tree.get(message_id) for message_id in ids)


@dataclass(frozen=True, slots=True)
class ChatState:
    """Where the conversation on show stands; the prefill numbers, as in Answer, are 0 unless it prefills.

    It is "choosing" when several answers are there and none has been kept.
    """

    phase: Phase = "idle"
    prefill_done: int = 0
    prefill_total: int = 0
    cached: int = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return self.phase not in ("idle", "choosing")


def state_of(answers: Sequence[Answer], choosing: bool = False) -> ChatState:
    """The state of a conversation that ends in these answers on their way; none when all are complete."""
    answer = next((answer for answer in answers if not answer.over), None)
    if answer is None:
        return ChatState("choosing" if choosing else "idle")
    if answer.cancelled:
        return ChatState("stopping")
    if answer.phase == "prefilling":
        return ChatState("prefilling", answer.prefill_done, answer.prefill_total, answer.cached)
    return ChatState(answer.phase)
