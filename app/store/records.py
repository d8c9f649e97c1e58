"""The values that a conversation is made of, the same on disk and in the window."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["user", "assistant"]
Status = Literal["complete", "streaming", "stopped", "length", "failed", "interrupted"]

TITLE_LENGTH = 60


def new_id() -> str:
    """A name for a chat or message that no other one has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation: a tree of messages, of which the path up from `leaf_id` is the one on show.

    Attributes:
        created, updated: seconds since the epoch.
        system: what the model is told before its first message, as the chat began; "" is nothing.
    """

    title: str
    id: str = field(default_factory=new_id)
    leaf_id: str | None = None
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    system: str = ""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One node of a conversation's tree.

    Attributes:
        parent_id: the message it answers or follows; None for the first. Siblings share a parent.
        text: what is shown.
        tokens: the exact token ids this node adds to the prompt; for an answer those that were generated,
            behind what only its own prompt had before them. None until the engine has told them.
        kept_tokens: how many of the tokens on the path above precede `tokens`; None is all of them.
            A chat template that rewrites earlier turns makes it fewer.
        status: how it ended; "streaming" while it is being written, "interrupted" when the app died then.
        error: the one line that ended it, for "failed", "length", and "stopped" where nobody stopped it.
        model: folder of the model that wrote it, whose tokenizer `tokens` belong to.
        generated_tokens, ttft_ms, decode_tps: the engine's account of an answer; 0 where there is none.
        missed_from, miss_reason: the first token that had been read before for this chat and was read again
            for this answer, and why; None and "" where nothing was.
        shown_child: the child last on show below it; None for the newest.
    """

    chat_id: str
    role: Role
    text: str = ""
    parent_id: str | None = None
    id: str = field(default_factory=new_id)
    tokens: tuple[int, ...] | None = None
    kept_tokens: int | None = None
    status: Status = "complete"
    error: str = ""
    model: str = ""
    created: float = field(default_factory=time.time)
    generated_tokens: int = 0
    ttft_ms: float = 0.0
    decode_tps: float = 0.0
    missed_from: int | None = None
    miss_reason: str = ""
    shown_child: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """What is written in a chat and not sent; of the chat that begins with it, `chat_id` is ""."""

    chat_id: str
    text: str

    @property
    def id(self) -> str:
        """A name that no chat or message has."""
        return f"draft {self.chat_id}"


@dataclass(frozen=True, slots=True)
class Edit:
    """A message's new words that were not sent yet."""

    message_id: str
    text: str

    @property
    def id(self) -> str:
        """A name that no chat or message has."""
        return f"edit {self.message_id}"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A chat that a search found, with the words around the first place; "" when only its title matched."""

    chat: Chat
    snippet: str


_MARK = re.compile(r"\A\s*(?:(?:#{1,6}|>)\s+)+(?=\S)")
"""Of a heading or a quotation in Markdown, in front of its words."""


def title_from(text: str) -> str:
    """A chat's title, from its first message: one line of at most TITLE_LENGTH characters."""
    line = " ".join(_MARK.sub("", text).split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[:TITLE_LENGTH].rsplit(" ", 1)[0] if " " in line[:TITLE_LENGTH] else line[: TITLE_LENGTH - 1]
    return cut.rstrip(" ,.;:") + "…"


def storable(text: str) -> str:
    """`text` without halves of surrogate pairs, which have no UTF-8 form."""
    return text.encode("utf-8", "replace").decode("utf-8")
