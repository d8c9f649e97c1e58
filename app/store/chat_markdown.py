"""A chat as Markdown, to be read and printed: the messages on show, the first one first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from app.store.records import Chat, ChatMessage

SUFFIX = ".md"
YOU = "You"
ENDS = {
    "streaming": "This answer was still being written.",
    "stopped": "This answer was stopped.",
    "length": "There was no room for more here.",
    "failed": "This answer failed.",
    "interrupted": "MLXR was closed while this was being written.",
}


def to_markdown(chat: Chat, path: Iterable[ChatMessage], name_of: Callable[[str], str]) -> str:
    """The chat's text. `path`: its messages on show; `name_of`: a model's path as people say it."""
    parts = [f"# {' '.join(chat.title.split())}"]
    if chat.system:
        parts.append("\n".join(f"> {line}".rstrip() for line in chat.system.splitlines()))
    for message in path:
        who = YOU if message.role == "user" else name_of(message.model) or "MLXR"
        parts += ["---", f"**{who}** · {_time(message.created)}"]
        if message.text.strip():
            parts.append(message.text.strip("\n"))
        if end := ENDS.get(message.status):
            parts.append(f"*{end}*")
    return "\n\n".join(parts) + "\n"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
