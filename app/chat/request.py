"""What a conversation asks of the engine: answers to the last message of a path."""

from __future__ import annotations

from collections.abc import Sequence

from app.chat.history import exact_history, history
from app.store.records import Chat, ChatMessage
from engine import Generate, Message, SamplingParams


def request_for(
    request_id: str,
    chat: Chat,
    path: Sequence[ChatMessage],
    model: str,
    sampling: SamplingParams,
    answers: int = 1,
) -> Generate:
    """The window's request for `answers` to the last message of `path`.

    What the chat began with is told before the path. `model`: the folder of the one that answers.
    """
    opening = (Message("system", chat.system),) if chat.system else ()
    return Generate(
        request_id,
        messages=(*opening, *history(path)),
        sampling=sampling,
        history=exact_history(path, model, len(opening)),
        chat=chat.id,
        lane="window",
        n=answers,
        model=model,
    )
