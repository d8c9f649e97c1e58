"""What of a conversation is told to the model: its words, and the exact ids that they were computed as."""

from __future__ import annotations

from collections.abc import Sequence

from app.chat.token_path import tokens_along
from app.store.records import ChatMessage
from engine import History, Message


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


def exact_history(path: Sequence[ChatMessage], model: str, before: int = 0) -> History | None:
    """The ids that the first messages of `history(path)` were computed as; None before the first answer.

    They reach to the last answer whose ids are of the model in folder `model`. Where it has answered nothing,
    to the last answer of another: the engine cannot use its ids, but can say why it reads all of it again.
    None where its answers' ids were never told, as after a crash: then no other model is why.
    `before` messages are told before those of the path, since the chat began.
    """
    worded = [place for place, message in enumerate(path) if message.role == "assistant" and message.text]
    own = [place for place in worded if path[place].model == model]
    told = [place for place in own or worded if path[place].tokens]
    if not told:
        return None
    known = path[: told[-1] + 1]
    return History(tokens_along(known), before + len(history(known)), known[-1].model)
