"""A chat as a `.mlxrchat` file: JSON with the whole tree of its messages; docs/chat-files.md has the format.

Token ids stay behind: they are of one model only, and what a model reads of a chat from elsewhere is to be
what a person sees of it. So do paths and ids of the machine that wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from app import VERSION
from app.errors import AppError
from app.store.chat_fields import Fields
from app.store.records import Chat, ChatMessage, Role, Status, new_id

SUFFIX = ".mlxrchat"
FORMAT, FORMAT_VERSION = "mlxr-chat", 1
LARGEST = 64 << 20
"""Bytes of a file. A chat of a million words has a tenth of it."""

MOST_MESSAGES = 100_000
_ENDED: tuple[Status, ...] = ("complete", "stopped", "length", "failed", "interrupted")
_ROLES: tuple[Role, ...] = ("user", "assistant")
FAILED_ELSEWHERE = "it failed on the machine that this chat comes from"


class ChatFileError(AppError):
    """A file cannot be read as a chat, or a chat not be written."""


def to_json(chat: Chat, messages: Iterable[ChatMessage], name_of: Callable[[str], str]) -> str:
    """The file's text.

    `messages` are all of the chat, parents first; `name_of` makes of a model's path what people call it.
    What is still being written counts as interrupted.
    """
    numbers: dict[str | None, int | None] = {None: None}
    listed = list(messages)
    for number, message in enumerate(listed, start=1):
        numbers[message.id] = number
    values = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "written_by": f"MLXR {VERSION}",
        "title": chat.title,
        "created": _time(chat.created),
        "updated": _time(chat.updated),
        "system": chat.system,
        "shown": numbers.get(chat.leaf_id),
        "messages": [_message_values(message, numbers, name_of) for message in listed],
    }
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def from_json(data: bytes, name: str) -> tuple[Chat, tuple[ChatMessage, ...]]:
    """The chat in a file's bytes, as a copy with new ids that was last changed now; `name`: of the file.

    Raises ChatFileError with one line, and makes nothing of a file that is not right from end to end.
    """
    try:
        values = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse)
        if not isinstance(values, dict) or cast(dict[str, Any], values).get("format") != FORMAT:
            raise ChatFileError(f"{name} is no chat of MLXR's; choose a file that was exported as {SUFFIX}")
        fields = Fields(cast(dict[str, Any], values), "the file")
        if fields.count("version") > FORMAT_VERSION:
            raise ChatFileError(f"{name} was written by a newer MLXR; update MLXR to open it")
        return _chat(fields)
    except (ValueError, RecursionError) as error:  # not UTF-8 and not JSON are ValueErrors too
        raise ChatFileError(f"{name} is damaged ({error}); get the file again") from None


def read_chat_file(path: Path) -> tuple[Chat, tuple[ChatMessage, ...]]:
    """The chat in the file at `path`, as for `from_json`. Raises ChatFileError."""
    try:
        if path.is_fifo():  # whoever opens it waits until somebody writes
            raise ChatFileError(f"{path.name} is a pipe; give a file")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # the second for a path that no file can have
        reason = getattr(error, "strerror", None) or str(error)
        raise ChatFileError(f"{path.name} cannot be read ({reason}); is it still there, and yours?") from None
    if len(data) > LARGEST:
        raise ChatFileError(f"{path.name} is too large for a chat: MLXR takes up to {LARGEST >> 20} MB")
    return from_json(data, path.name)


def _message_values(
    message: ChatMessage, numbers: dict[str | None, int | None], name_of: Callable[[str], str]
) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": numbers[message.id],
        "parent": numbers[message.parent_id],
        "role": message.role,
        "text": message.text,
        "created": _time(message.created),
    }
    if message.role == "assistant":
        values |= {
            "model": name_of(message.model),
            "status": message.status if message.status in _ENDED else "interrupted",
            "tokens": message.generated_tokens,
            "ttft_ms": round(message.ttft_ms, 3),
            "decode_tps": round(message.decode_tps, 3),
        }
    if message.shown_child is not None:
        values["shown_child"] = numbers.get(message.shown_child)
    return values


def _chat(fields: Fields) -> tuple[Chat, tuple[ChatMessage, ...]]:
    listed = fields.objects("messages", MOST_MESSAGES)
    if not listed:
        raise ValueError("it holds no message")
    ids = {number: new_id() for number in range(1, len(listed) + 1)}
    title = " ".join(fields.text("title").split())[:200]
    chat = Chat(
        title or "Chat",
        leaf_id=ids[shown] if (shown := fields.number_of("shown", len(ids))) else None,
        created=fields.time("created"),
        system=fields.text("system", ""),
    )
    messages: list[ChatMessage] = []
    for number, one in enumerate(listed, start=1):
        messages.append(_message(one, number, ids, chat.id, messages))
    return chat, tuple(messages)


def _message(
    fields: Fields, number: int, ids: dict[int, str], chat_id: str, before: list[ChatMessage]
) -> ChatMessage:
    """Message `number`, whose parent is one of those `before` it."""
    if fields.count("id") != number:
        raise ValueError(f"message {number} is not numbered so")
    parent = fields.number_of("parent", number - 1)
    role = fields.one_of("role", _ROLES)
    if role == "assistant" and (parent is None or before[parent - 1].role != "user"):
        raise ValueError(f"message {number} answers no question")
    child = fields.number_of("shown_child", len(ids))
    message = ChatMessage(
        chat_id,
        role,
        fields.text("text"),
        ids[parent] if parent else None,
        ids[number],
        created=fields.time("created"),
        shown_child=ids[child] if child else None,
    )
    return message if role == "user" else _answer(message, fields)


def _answer(message: ChatMessage, fields: Fields) -> ChatMessage:
    status = fields.one_of("status", _ENDED)
    return replace(
        message,
        status=status,
        error=FAILED_ELSEWHERE if status == "failed" else "",
        model=fields.text("model", "")[:200],
        generated_tokens=fields.count("tokens", 0),
        ttft_ms=fields.amount("ttft_ms"),
        decode_tps=fields.amount("decode_tps"),
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number")
