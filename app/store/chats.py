"""What is asked of the conversations database, in SQL: one method per question or change."""

from __future__ import annotations

import sqlite3
import time
from array import array
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from app.store.records import Chat, ChatMessage, Draft, Edit, SearchHit
from app.store.search import SHORTEST_INDEXED, escape_like, phrase, snippet

CHAT_COLUMNS = "id, title, leaf_id, created, updated, system"
MESSAGE_FIELDS = tuple(f.name for f in fields(ChatMessage))
RECENT_MODELS = 8


class ChatStore:
    """Reads and writes conversations. Used by one thread, on a connection in autocommit mode.

    Every method may raise sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def save_chat(self, chat: Chat) -> None:
        """Insert the chat or bring it up to date; what it began with stays."""
        self._db.execute(
            f"INSERT INTO chats({CHAT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET "
            "title = excluded.title, leaf_id = excluded.leaf_id, updated = excluded.updated",
            (chat.id, chat.title, chat.leaf_id, chat.created, chat.updated, chat.system),
        )

    def save_message(self, message: ChatMessage) -> None:
        """Insert the message or bring it up to date; finished ones become searchable."""
        row = {name: getattr(message, name) for name in MESSAGE_FIELDS}
        row["tokens"] = None if message.tokens is None else array("i", message.tokens).tobytes()
        columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
        changes = ", ".join(
            f"{name} = excluded.{name}" for name in row if name not in ("id", "chat_id", "created")
        )
        number = self._db.execute(
            f"INSERT INTO messages({columns}) VALUES ({values}) "
            f"ON CONFLICT(id) DO UPDATE SET {changes} RETURNING number",
            row,
        ).fetchone()[0]
        if message.status != "streaming":
            self._index(number, message.text)

    def save_draft(self, draft: Draft) -> None:
        """Keep what is written in a chat and not sent; "" is nothing."""
        if draft.text:
            self._db.execute("INSERT OR REPLACE INTO drafts VALUES (?, ?)", (draft.chat_id, draft.text))
        else:
            self._db.execute("DELETE FROM drafts WHERE chat_id = ?", (draft.chat_id,))

    def drafts(self) -> dict[str, str]:
        """What is written and not sent, by chat; "" is the chat that is not begun."""
        return dict(self._db.execute("SELECT chat_id, text FROM drafts").fetchall())

    def save_edit(self, edit: Edit) -> None:
        """Keep a message's new words that were not sent; "" is nothing, as for a message that is gone."""
        if edit.text:
            self._db.execute(
                "INSERT OR REPLACE INTO edits SELECT id, ? FROM messages WHERE id = ?",
                (edit.text, edit.message_id),
            )
        else:
            self._db.execute("DELETE FROM edits WHERE message_id = ?", (edit.message_id,))

    def edits(self) -> dict[str, str]:
        """New words of messages that were not sent, by message, the one begun last behind the others."""
        return dict(self._db.execute("SELECT message_id, text FROM edits ORDER BY rowid").fetchall())

    def chats(self) -> list[Chat]:
        """All chats, newest first."""
        rows = self._db.execute(
            f"SELECT {CHAT_COLUMNS} FROM chats WHERE trashed IS NULL ORDER BY updated DESC"
        )
        return [_chat(row) for row in rows]

    def find(self, chat_id: str) -> Chat | None:
        """The chat with this id; None where there is none, or it is in the trash."""
        row = self._db.execute(
            f"SELECT {CHAT_COLUMNS} FROM chats WHERE id = ? AND trashed IS NULL", (chat_id,)
        ).fetchone()
        return _chat(row) if row else None

    def add(self, chat: Chat, messages: Iterable[ChatMessage]) -> None:
        """Insert a whole chat, parents before what is below them; for a transaction."""
        self.save_chat(chat)
        for message in messages:
            self.save_message(message)

    def messages(self, chat_id: str) -> list[ChatMessage]:
        """All messages of the chat, on show or not, in the order in which they were made."""
        rows = self._db.execute(
            f"SELECT {', '.join(MESSAGE_FIELDS)} FROM messages WHERE chat_id = ? ORDER BY number", (chat_id,)
        )
        return [_message(row) for row in rows]

    def rename(self, chat_id: str, title: str) -> None:
        """Give the chat another title; its place in the list stays."""
        self._db.execute("UPDATE chats SET title = ? WHERE id = ?", (title, chat_id))

    def pin(self, chat_id: str, pinned: bool) -> None:
        """Note whether the chat's pages are to stay in memory; `save_chat` leaves that as it is."""
        self._db.execute("UPDATE chats SET pinned = ? WHERE id = ?", (pinned, chat_id))

    def pinned(self) -> list[str]:
        """The chats whose pages are to stay in memory, without those in the trash."""
        rows = self._db.execute("SELECT id FROM chats WHERE pinned AND trashed IS NULL ORDER BY id")
        return [chat_id for (chat_id,) in rows]

    def trash(self, chat_id: str) -> None:
        """Take the chat out of the list; `restore` brings it back until `purge_trash`."""
        self._db.execute("UPDATE chats SET trashed = ? WHERE id = ?", (time.time(), chat_id))

    def restore(self, chat_id: str) -> None:
        """Undo `trash`."""
        self._db.execute("UPDATE chats SET trashed = NULL WHERE id = ?", (chat_id,))

    def purge_trash(self) -> None:
        """Delete for good what is in the trash."""
        if self._db.execute("DELETE FROM chats WHERE trashed IS NOT NULL").rowcount:
            self._db.execute("PRAGMA incremental_vacuum").fetchall()

    def close_interrupted(self) -> None:
        """Mark answers that were being written when the app last died."""
        rows = self._db.execute(
            "UPDATE messages SET status = 'interrupted' WHERE status = 'streaming' RETURNING number, text"
        ).fetchall()
        for number, text in rows:
            self._index(number, text)

    def search(self, query: str, limit: int = 200) -> list[SearchHit]:
        """Chats in which the title, or one message, contains every word of `query`; newest first."""
        words = query.split()
        if not words:
            return []
        found = dict(self._matching_messages(words))
        hits: list[SearchHit] = []
        for chat in self.chats():
            in_title = all(word.casefold() in chat.title.casefold() for word in words)
            if chat.id in found or in_title:
                hits.append(SearchHit(chat, snippet(found[chat.id], words) if chat.id in found else ""))
        return hits[:limit]

    def remember_model(self, path: str) -> None:
        """Note that the model folder was opened now."""
        self._db.execute(
            "INSERT OR REPLACE INTO opened_models VALUES (?, ?)",
            (path, time.time()),
        )

    def recent_models(self) -> list[str]:
        """Model folders, last opened first."""
        rows = self._db.execute(
            "SELECT path FROM opened_models ORDER BY opened DESC LIMIT ?", (RECENT_MODELS,)
        )
        return [path for (path,) in rows]

    def _index(self, number: int, text: str) -> None:
        self._db.execute("DELETE FROM message_search WHERE rowid = ?", (number,))
        self._db.execute("INSERT INTO message_search(rowid, text) VALUES (?, ?)", (number, text))

    def _matching_messages(self, words: list[str]) -> list[tuple[str, str]]:
        long = [phrase(word) for word in words if len(word) >= SHORTEST_INDEXED]
        short = [f"%{escape_like(word)}%" for word in words if len(word) < SHORTEST_INDEXED]
        conditions = ["message_search MATCH ?"] * bool(long)
        conditions += ["message_search.text LIKE ? ESCAPE '\\'"] * len(short)
        return self._db.execute(
            "SELECT messages.chat_id, messages.text FROM message_search "
            "JOIN messages ON messages.number = message_search.rowid "
            f"WHERE {' AND '.join(conditions)} ORDER BY messages.number DESC",
            ([" ".join(long)] if long else []) + short,
        ).fetchall()


def _chat(row: tuple[Any, ...]) -> Chat:
    identity, title, leaf_id, created, updated, system = row
    return Chat(title, identity, leaf_id, created, updated, system)


def _message(row: tuple[Any, ...]) -> ChatMessage:
    values = dict(zip(MESSAGE_FIELDS, row, strict=True))
    if values["tokens"] is not None:
        values["tokens"] = tuple(array("i", values["tokens"]))
    return ChatMessage(**values)
