"""Migrations: from a blank file and from every older schema, with what was in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from app.store.chats import ChatStore
from app.store.records import Draft
from app.store.schema import MIGRATIONS, NewerDatabase, migrate, version_of


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """A blank database."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def bring_to(connection: sqlite3.Connection, version: int) -> None:
    """Make it what an MLXR that knew `version` migrations left, with a chat in it."""
    for step in MIGRATIONS[:version]:
        step(connection)
    connection.execute(f"PRAGMA user_version = {version}")
    if version:
        connection.execute(
            "INSERT INTO chats(id, title, leaf_id, created, updated) VALUES ('c', 'Old chat', 'a', 1.0, 2.0)"
        )
        for number, (name, parent, role, text) in enumerate(
            [("q", None, "user", "what is a page"), ("a", "q", "assistant", "sixteen tokens")]
        ):
            connection.execute(
                "INSERT INTO messages(number, id, chat_id, parent_id, role, text, status, error, model, "
                "created, generated_tokens, ttft_ms, decode_tps) "
                "VALUES (?, ?, 'c', ?, ?, ?, 'complete', '', '', 1.0, 0, 0, 0)",
                (number + 1, name, parent, role, text),
            )
            if version > 1:
                connection.execute(
                    "INSERT INTO message_search(rowid, text) VALUES (?, ?)", (number + 1, text)
                )


def test_blank_database_gets_every_migration(connection: sqlite3.Connection) -> None:
    migrate(connection)
    assert version_of(connection) == len(MIGRATIONS)
    assert ChatStore(connection).chats() == []


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_older_database_keeps_its_chats_and_can_be_searched(
    connection: sqlite3.Connection, version: int
) -> None:
    bring_to(connection, version)
    migrate(connection)
    store = ChatStore(connection)
    assert version_of(connection) == len(MIGRATIONS)
    assert [message.text for message in store.messages("c")] == ["what is a page", "sixteen tokens"]
    assert [hit.chat.title for hit in store.search("sixteen")] == ["Old chat"]
    assert store.recent_models() == []
    assert store.pinned() == []
    store.pin("c", True)
    assert store.pinned() == ["c"]
    assert store.drafts() == {}
    store.save_draft(Draft("c", "half a sentence"))
    assert store.drafts() == {"c": "half a sentence"}
    assert store.edits() == {}


def test_migrating_twice_changes_nothing(connection: sqlite3.Connection) -> None:
    bring_to(connection, len(MIGRATIONS))
    before = list(connection.iterdump())
    migrate(connection)
    assert list(connection.iterdump()) == before


def test_newer_database_is_refused_untouched(connection: sqlite3.Connection) -> None:
    bring_to(connection, len(MIGRATIONS))
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = list(connection.iterdump())
    with pytest.raises(NewerDatabase):
        migrate(connection)
    assert list(connection.iterdump()) == before


def test_failed_step_leaves_the_version_before_it(connection: sqlite3.Connection) -> None:
    def breaks(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (x)")
        raise sqlite3.OperationalError("disk full")

    bring_to(connection, 1)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, (MIGRATIONS[0], breaks))
    assert version_of(connection) == 1
    assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchall()
