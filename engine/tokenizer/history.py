"""Exact history: a chat's next prompt, built on the token ids that its earlier turns were computed as."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.cache.common_length import common_length
from engine.commands import History, Message
from engine.errors import InvalidRequest
from engine.events.cache import MissReason
from engine.token_ids import ID, packed
from engine.tokenizer.interface import Tokenizer

_MARK = "\ufdd3"


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A chat's prompt.

    Attributes:
        ids: of the whole prompt.
        packed: the same as an array of 32 bits; None where they do not fit into these.
        kept: how many of them are the first ids of the history.
        reason: why that is not all of the history; None when it is, or there was none.
        affected: how many of them, from the first on, that may be the reason for.
    """

    ids: tuple[int, ...]
    packed: array[int] | None
    kept: int = 0
    reason: MissReason | None = None
    affected: int = 0


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
        return prompt_of(_rendered(tokenizer, messages))
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
    known = history.packed
    numbers = None if known is None else known + array(ID, behind)
    return ChatPrompt((*history.tokens, *behind), numbers, len(history.tokens))


def prompt_of(ids: tuple[int, ...]) -> ChatPrompt:
    """A prompt of `ids`, of which nothing was computed."""
    return ChatPrompt(ids, packed(ids))


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
    made = prompt_of(ids)
    if reason == "other model":
        return replace(made, reason=reason, affected=_told(tokenizer, messages[: history.messages], ids))
    kept = common_length(history.tokens, ids)
    return replace(made, kept=kept, reason=None if kept == len(history.tokens) else reason, affected=len(ids))


def _told(tokenizer: Tokenizer, messages: Sequence[Message], ids: tuple[int, ...]) -> int:
    """How many of `ids`, those of a chat, are of its first `messages`."""
    try:
        return common_length(_rendered(tokenizer, messages), ids)
    except InvalidRequest:  # the template wants a question at the end
        return len(ids)


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a message's content is in a rendered chat: from the id at `begin` on, up to the ids `rest`."""

    begin: int
    rest: tuple[int, ...]


def _change(tokenizer: Tokenizer, opening: Sequence[Message], tokens: tuple[int, ...]) -> MissReason:
    """What of the chat's opening is not as it was when `tokens` were computed.

    A message has changed where these differ within its content in today's rendering. It was longer then where
    they differ at its end, and what the template puts behind it follows in `tokens` all the same; or where
    they differ later, and all that is behind it follows. A message that reads as it did has not changed: a
    template may put a blank before it, which becomes one token with its first letters.
    """
    ids = _rendered(tokenizer, opening)
    same = common_length(tokens, ids)
    if _came_or_went(tokenizer, opening, tokens, same):
        return "system prompt changed"
    next_begin = len(ids)
    for place in reversed(range(len(opening))):
        span = _span(tokenizer, opening, place, ids)
        if span.begin <= same:
            end = len(ids) - len(span.rest)
            behind = ids[end:next_begin] if same == end else span.rest
            if same >= end and not _holds(tokens[span.begin :], behind):
                return "template changed"
            if _read(tokenizer, tokens, span) == opening[place].content.lstrip():
                return "template changed"
            return "system prompt changed" if opening[place].role == "system" else "edited"
        next_begin = span.begin
    return "template changed"


def _came_or_went(
    tokenizer: Tokenizer, opening: Sequence[Message], tokens: tuple[int, ...], same: int
) -> bool:
    """Whether the system prompt is what `tokens`, of which `same` are as today, had not, or had alone."""
    try:
        if opening[0].role == "system":
            without = opening[1:]
            return bool(without) and common_length(tokens, _rendered(tokenizer, without)) > same
        marked = [Message("system", _MARK), *opening]
        ids = _rendered(tokenizer, marked)
        span = _span(tokenizer, marked, 0, ids)
    except InvalidRequest:  # the template knows no system prompt, or no chat without one
        return False
    common = common_length(tokens, ids)
    return span.begin <= common and (common > same or _holds(tokens[span.begin :], span.rest))


def _span(tokenizer: Tokenizer, messages: Sequence[Message], place: int, ids: tuple[int, ...]) -> _Span:
    """Of the content of messages[place] in `ids`, those of `messages`; at their end if it is not shown."""
    before, role, behind = messages[:place], messages[place].role, messages[place + 1 :]
    marked, other = (
        _rendered(tokenizer, [*before, Message(role, text), *behind]) for text in (_MARK + "a", "a" + _MARK)
    )
    begin = common_length(marked, other)
    rest = min(common_length(marked[::-1], one[::-1]) for one in (other, ids))
    if begin == len(marked):
        return _Span(len(ids), ())
    return _Span(min(begin, common_length(marked, ids)), ids[len(ids) - rest :])


def _read(tokenizer: Tokenizer, tokens: tuple[int, ...], span: _Span) -> str | None:
    """The text in `tokens` where the message of `span` would stand; None where what is behind it is not."""
    behind = tokens[span.begin :]
    end = _place(behind, span.rest)
    return tokenizer.decode(behind[:end]).lstrip() if end >= 0 else None


def _holds(tokens: tuple[int, ...], part: tuple[int, ...]) -> bool:
    """Whether the ids `part` are anywhere in `tokens`, one behind the other."""
    return _place(tokens, part) >= 0


def _place(tokens: tuple[int, ...], part: tuple[int, ...]) -> int:
    """Where the ids `part` are first in `tokens`, one behind the other; -1 where they are not."""
    whole, wanted = array(ID, tokens), array(ID, part).tobytes()
    data = whole.tobytes()
    at = data.find(wanted)
    while at % whole.itemsize and at >= 0:
        at = data.find(wanted, at + 1)
    return at // whole.itemsize if at >= 0 else -1


def _starts_with(tokens: tuple[int, ...], opening: tuple[int, ...]) -> bool:
    return common_length(tokens, opening) == len(opening)


def _rendered(tokenizer: Tokenizer, messages: Sequence[Message]) -> tuple[int, ...]:
    return tuple(tokenizer.encode_chat(messages))
