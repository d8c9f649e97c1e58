"""`mlxr://` links: the two that there are, and why any other is refused. A link shows; it runs nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.errors import AppError
from app.hub.repo_id import is_repo

SCHEME = "mlxr:"
LONGEST = 256
_LINK = re.compile(r"(?i:mlxr)://(?:model/(?P<repo>[\w.-]+/[\w.-]+)|chat/(?P<chat>[0-9a-f]{32}))/?", re.ASCII)
_SHOWN = 60


class BadLink(AppError):
    """The link is none of MLXR's."""


@dataclass(frozen=True, slots=True)
class ModelLink:
    """`mlxr://model/OWNER/NAME`: the page of a repository on the Hub."""

    repo: str


@dataclass(frozen=True, slots=True)
class ChatLink:
    """`mlxr://chat/ID`: a chat of this machine, by its 32 hexadecimal digits."""

    chat_id: str


def is_link(text: str) -> bool:
    """Whether `text` is meant as a link of MLXR's, good or bad."""
    return text[: len(SCHEME)].lower() == SCHEME


def parse_link(text: str) -> ModelLink | ChatLink:
    """What the link leads to. Raises BadLink.

    It is taken as it stands: nothing is decoded here, and there is no query, fragment, user or port.
    """
    found = _LINK.fullmatch(text) if len(text) <= LONGEST else None
    if found and found["chat"]:
        return ChatLink(found["chat"])
    if found and is_repo(found["repo"]):
        return ModelLink(found["repo"])
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    raise BadLink(
        f"the link {ascii(shown)[1:-1]} was not opened: MLXR knows mlxr://model/OWNER/NAME and mlxr://chat/ID"
    )
