"""Exact history: a chat's next prompt, built on the token ids that its earlier turns were computed as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cache_events import MissReason
from engine.commands import History, Message
from engine.common_length import common_length
from engine.errors import InvalidRequest
from engine.tokenizer.interface import Tokenizer

_MARK = "\ufdd3"


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A chat's prompt.

    Attributes:
        ids: of the whole prompt.
        kept: how many of them are the first ids of the history.
        reason: why that is not all of the history; None when it is, or there was none.
    """

    ids: tuple[int, ...]
    kept: int
    reason: MissReason | None


def chat_prompt(
    tokenizer: Tokenizer, messages: Sequence[Message], history: History | None, model: str
) -> ChatPrompt:
    """The prompt of `messages` for the model in folder `model`: `history`, and what the template puts behind.

    The ids of the history are taken as they are: neither a template that rewrites earlier answers, nor a
    tokenizer that would split their text in another way, changes what was computed. A history that is of
    another model, or begins otherwise than these messages do today, is of no use: everything is rendered
    afresh then, and `reason` says why.

    Raises:
        InvalidRequest: the history is empty or does not end with one of the answers in `messages`; or as
            `Tokenizer.encode_chat`.
        TokenizerError: the template itself fails.
    """
    if history is None:
        return ChatPrompt(_rendered(tokenizer, messages), 0, None)
    _check(history, messages)
    if history.model != model:
        return _afresh(tokenizer, messages, history, "other model")
    first_answer = next(place for place, message in enumerate(messages) if message.role == "assistant")
    opening = messages[:first_answer]
    if opening and not _starts_with(history.tokens, _rendered(tokenizer, opening)):
        return _afresh(tokenizer, messages, history, _change(tokenizer, opening, history.tokens))
    behind = tokenizer.encode_after(messages, history.messages - 1, history.tokens[-1])
    if behind is None:
        return _afresh(tokenizer, messages, history, "template changed")
    return ChatPrompt((*history.tokens, *behind), len(history.tokens), None)


def _check(history: History, messages: Sequence[Message]) -> None:
    count = history.messages
    if not 1 <= count <= len(messages):
        raise InvalidRequest(
            f"the history stands for {count} messages and the chat has {len(messages)}; send the chat whole"
        )
    if messages[count - 1].role != "assistant":
        raise InvalidRequest(
            f"the history ends with message {count}, which is no answer; end it with an answer"
        )
    if not history.tokens:
        raise InvalidRequest("the history has no tokens; leave it out")


def _afresh(
    tokenizer: Tokenizer, messages: Sequence[Message], history: History, reason: MissReason
) -> ChatPrompt:
    """Everything rendered anew; by chance it may still begin as the history does."""
    ids = _rendered(tokenizer, messages)
    kept = 0 if reason == "other model" else common_length(history.tokens, ids)
    return ChatPrompt(ids, kept, None if kept == len(history.tokens) else reason)


def _change(tokenizer: Tokenizer, opening: Sequence[Message], tokens: tuple[int, ...]) -> MissReason:
    """What of the chat's opening is not as it was when `tokens` were computed."""
    if opening[0].role == "system":
        text = tokenizer.decode(tokenizer.encode(opening[0].content, add_bos=False)).strip()
        return "template changed" if text in tokenizer.decode(tokens) else "system prompt changed"
    return "system prompt changed" if _had_system(tokenizer, opening, tokens) else "template changed"


def _had_system(tokenizer: Tokenizer, opening: Sequence[Message], tokens: tuple[int, ...]) -> bool:
    """Whether `tokens` begin as a chat with a system prompt does, and as one without does not."""
    try:
        ids = [_rendered(tokenizer, [Message("system", text), *opening]) for text in (_MARK, "a" + _MARK)]
    except InvalidRequest:  # the template knows no system prompt
        return False
    with_system = common_length(*ids)
    return with_system <= common_length(ids[0], tokens) > common_length(_rendered(tokenizer, opening), tokens)


def _starts_with(tokens: tuple[int, ...], opening: tuple[int, ...]) -> bool:
    return common_length(tokens, opening) == len(opening)


def _rendered(tokenizer: Tokenizer, messages: Sequence[Message]) -> tuple[int, ...]:
    return tuple(tokenizer.encode_chat(messages))
