"""The thread that owns the database of conversations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.store.chats import ChatStore
from app.store.database import CHATS
from app.store.database_worker import DatabaseWorker, Keeping, Post
from app.store.records import Chat, ChatMessage, Draft, Edit

Kept = Chat | ChatMessage | Draft | Edit


def _begin(store: ChatStore) -> None:
    store.close_interrupted()
    store.purge_trash()


def _save(store: ChatStore, value: Kept) -> None:
    match value:
        case Chat():
            store.save_chat(value)
        case ChatMessage():
            store.save_message(value)
        case Draft():
            store.save_draft(value)
        case Edit():
            store.save_edit(value)


CHATS_KEPT: Keeping[ChatStore, Kept] = Keeping(
    kind=CHATS,
    store=ChatStore,
    begin=_begin,
    save=_save,
    cannot_save="Chats cannot be saved right now ({reason}). What is new is in memory; MLXR keeps trying.",
    not_saved="What was changed last in the chats could not be saved ({reason}).",
    lost="One change to the chats cannot be saved ({reason}); it is lost when MLXR ends. Others are saved.",
    cannot_read="Chats cannot be read right now ({reason}).",
    ended="Chats can no longer be saved ({reason}). Start MLXR again; the screen's are in memory only.",
)


class StoreWorker(DatabaseWorker[ChatStore, Kept]):
    """Saves and reads conversations on a thread of its own (see DatabaseWorker)."""

    def __init__(self, path: Path, post: Post, on_problem: Callable[[str], None]) -> None:
        super().__init__(CHATS_KEPT, path, post, on_problem)
