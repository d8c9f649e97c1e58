"""The schema of conversations as numbered migrations; `PRAGMA user_version` counts those that ran."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence


class NewerDatabase(Exception):
    """The database was written by a newer MLXR and is left alone."""


def _tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE chats (
            id TEXT PRIMARY KEY,
            title TEXT NOT NULL,
            leaf_id TEXT,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            trashed REAL
        )"""
    )
    connection.execute(
        """CREATE TABLE messages (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            chat_id TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
            parent_id TEXT REFERENCES messages(id) ON DELETE CASCADE,
            role TEXT NOT NULL,
            text TEXT NOT NULL,
            tokens BLOB,
            kept_tokens INTEGER,
            status TEXT NOT NULL,
            error TEXT NOT NULL,
            model TEXT NOT NULL,
            created REAL NOT NULL,
            generated_tokens INTEGER NOT NULL,
            ttft_ms REAL NOT NULL,
            decode_tps REAL NOT NULL
        )"""
    )
    connection.execute("CREATE INDEX messages_by_chat ON messages(chat_id)")
    connection.execute("CREATE INDEX messages_by_parent ON messages(parent_id)")


def _search(connection: sqlite3.Connection) -> None:
    # Trigrams find any part of a word, and work for scripts that do not put spaces between words.
    connection.execute("CREATE VIRTUAL TABLE message_search USING fts5(text, tokenize='trigram')")
    connection.execute("INSERT INTO message_search(rowid, text) SELECT number, text FROM messages")
    connection.execute(
        """CREATE TRIGGER message_gone AFTER DELETE ON messages BEGIN
            DELETE FROM message_search WHERE rowid = old.number;
        END"""
    )


def _opened_models(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE opened_models (path TEXT PRIMARY KEY, opened REAL NOT NULL)")


def _branches_and_misses(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE messages ADD COLUMN missed_from INTEGER")
    connection.execute("ALTER TABLE messages ADD COLUMN miss_reason TEXT NOT NULL DEFAULT ''")
    connection.execute("ALTER TABLE messages ADD COLUMN shown_child TEXT")


def _pins(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE chats ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0")


def _openings(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE chats ADD COLUMN system TEXT NOT NULL DEFAULT ''")


def _drafts(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE drafts (chat_id TEXT PRIMARY KEY, text TEXT NOT NULL)")
    # No foreign key: one draft is of no chat yet.
    connection.execute(
        """CREATE TRIGGER chat_gone AFTER DELETE ON chats BEGIN
            DELETE FROM drafts WHERE chat_id = old.id;
        END"""
    )


def _edits(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE edits (
            message_id TEXT PRIMARY KEY REFERENCES messages(id) ON DELETE CASCADE,
            text TEXT NOT NULL
        )"""
    )


Migration = Callable[[sqlite3.Connection], None]

MIGRATIONS: tuple[Migration, ...] = (
    _tables,
    _search,
    _opened_models,
    _branches_and_misses,
    _pins,
    _openings,
    _drafts,
    _edits,
)
"""Migration n takes a database from version n to n + 1. Never change one that has shipped: add another."""


def version_of(connection: sqlite3.Connection) -> int:
    """How many migrations the database has had; 0 for a blank one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_version(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """The database's version. Raises NewerDatabase when it is ahead of this program; changes nothing."""
    version = version_of(connection)
    if version > len(migrations):
        raise NewerDatabase(f"version {version}; this MLXR knows up to {len(migrations)}")
    return version


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the database to the newest version, each step in a transaction of its own.

    The connection must be in autocommit mode. Raises NewerDatabase when it is ahead of this program.
    """
    while check_version(connection, migrations) < len(migrations):
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = version_of(connection)  # again: another program may have been quicker
            if version < len(migrations):
                migrations[version](connection)
                connection.execute(f"PRAGMA user_version = {version + 1}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
