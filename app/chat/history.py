"""What of a conversation is told to the model: the path on show, without turns that came to nothing."""

from __future__ import annotations

from collections.abc import Sequence

from app.store.records import ChatMessage
from engine import Message


def history(path: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """The messages to generate from; `path` ends with the user's newest one.

    A question whose answer failed before its first word is left out with it: a prompt that was too long must
    not spoil the next one. Where an answer was stopped before its first word, the questions around it become
    one: chat templates want the two sides to take turns.
    """
    told: list[Message] = []
    for message in path:
        if message.role == "assistant" and not message.text:
            if message.status == "failed" and told:
                told.pop()
        elif told and told[-1].role == message.role:
            told[-1] = Message(message.role, f"{told[-1].content}\n\n{message.text}")
        else:
            told.append(Message(message.role, message.text))
    return tuple(told)
