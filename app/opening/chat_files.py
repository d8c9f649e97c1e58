"""Chats to files and back: the disk is worked on by a thread of its own, and nothing is done by halves."""

from __future__ import annotations

import re
from concurrent.futures import Future
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.tree import MessageTree
from app.model_location import model_title
from app.models.background import Background, Post
from app.opening.opening_words import IMPORT_FAILED, NOT_WRITTEN, NOTHING_TO_EXPORT
from app.store.chat_file import ChatFileError, read_chat_file, to_json
from app.store.chat_markdown import SUFFIX as MARKDOWN
from app.store.chat_markdown import to_markdown
from app.store.chats import ChatStore
from app.store.face import Store
from app.store.records import Chat, ChatMessage
from app.text import titled
from app.whole_file import write_whole

_UNFIT = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]+')
_LONGEST_NAME = 60


class ChatFiles(QObject):
    """Writes chats of the store to files, and takes chats from files into it.

    Signals: `exported(Chat, path)`; `imported(Chat)` once it is stored; `found(Chat or None)`;
    `failed(a line for people)`.
    """

    exported = Signal(object, object)
    imported = Signal(object)
    found = Signal(object)
    failed = Signal(str)

    def __init__(self, store: Store, post: Post, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._background = Background("mlxr-chat-files", post)

    def write(self, chat_id: str, path: Path) -> None:
        """Save a chat at `path`: as Markdown where that ends in .md, else whole, as a .mlxrchat file."""
        found: Future[tuple[Chat | None, list[ChatMessage]]] = Future()

        def read(store: ChatStore) -> None:
            found.set_result((store.find(chat_id), store.messages(chat_id)))

        def work() -> Chat:
            chat, messages = found.result()
            if chat is None or not messages:
                raise ChatFileError(NOTHING_TO_EXPORT)
            _write(chat, messages, path)
            return chat

        # From thread to thread: what came by the window's queue would be lost where the window ends now.
        self._store.ask(read, lambda _: None, lambda line: found.set_exception(ChatFileError(line)))
        self._background.ask(work, lambda chat: self.exported.emit(chat, path), self.failed.emit)

    def read(self, path: Path) -> None:
        """Take the chat in a file into the store, as a copy."""
        self._background.ask(lambda: self._keep(*read_chat_file(path)), lambda _: None, self.failed.emit)

    def find(self, chat_id: str) -> None:
        """Look for a chat of the store."""
        self._store.ask(lambda store: store.find(chat_id), self.found.emit, self.failed.emit)

    def close(self, timeout: float) -> bool:
        """Finish what was asked. Returns whether it was done in time."""
        return self._background.close(timeout)

    def _keep(self, chat: Chat, messages: tuple[ChatMessage, ...]) -> None:
        self._store.change(
            lambda store: store.add(chat, messages),  # in a transaction
            lambda: self.imported.emit(chat),
            lambda reason: self.failed.emit(IMPORT_FAILED.format(title=titled(chat.title), reason=reason)),
        )


def file_name(title: str) -> str:
    """A file's name for a chat, without a suffix, that every system takes."""
    name = " ".join(_UNFIT.sub(" ", title).split())[:_LONGEST_NAME].strip(" .")
    return name or "Chat"


def _name_of(model: str) -> str:
    """What people call a model; that of a chat from elsewhere is a name already."""
    path = Path(model)
    return model_title(path) if path.is_absolute() else model


def _write(chat: Chat, messages: list[ChatMessage], path: Path) -> None:
    if path.suffix.lower() == MARKDOWN:
        words = to_markdown(chat, MessageTree(messages, chat.leaf_id).path, _name_of)
    else:
        words = to_json(chat, messages, _name_of)
    try:
        write_whole(path, words)
    except OSError as error:
        raise ChatFileError(NOT_WRITTEN.format(path=path, reason=error.strerror or error)) from None
