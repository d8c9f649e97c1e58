"""What a text from outside stands for: a link, a chat file or a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.errors import AppError
from app.models.model_choice import model_at
from app.opening.link import ChatLink, ModelLink, is_link, parse_link
from app.store.chat_file import SUFFIX

GGUF = ".gguf"
_FILE = "file:"


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A chat that was saved as a file."""

    path: Path


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model's folder, or its GGUF file."""

    path: Path


Target = ChatFile | ModelFile | ModelLink | ChatLink


def is_openable(text: str) -> bool:
    """Whether `text` looks like something to open and not like a command, without asking the disk."""
    lower = text.lower()
    is_path = "/" in text and "://" not in text  # as a model's folder is
    return is_path or is_link(text) or lower.startswith(_FILE) or lower.endswith((SUFFIX, GGUF))


def path_of(text: str) -> Path:
    """The path that is written as it is, or as the address of a file on this machine. Raises AppError."""
    if not text.lower().startswith(_FILE):
        return Path(text)
    try:
        parts = urlsplit(text)
        path = unquote(parts.path, errors="strict")
    except ValueError:
        parts, path = None, ""
    if parts is None or parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise AppError(f"{text[:80]!a} is not the address of a file on this machine")
    return Path(path)


def understand(text: str) -> Target:
    """What `text` stands for. Raises AppError for what MLXR does not open."""
    if is_link(text):
        return parse_link(text)
    path = path_of(text)
    if path.suffix.lower() == SUFFIX:
        return ChatFile(path)
    try:
        model = model_at(path) if text else None
    except (OSError, ValueError):  # a name too long, a folder that is closed to us
        model = None
    if model is None and path.suffix.lower() != GGUF:
        raise AppError(f"{path.name[:80]!a} was not opened: MLXR opens models ({GGUF}) and chats ({SUFFIX})")
    return ModelFile(model or path)
