"""Opening the database file, in whatever state it is."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.store import database
from app.store.chats import ChatStore
from app.store.database import Opened, open_database
from app.store.records import Chat
from app.store.schema import MIGRATIONS, migrate, version_of


def works(opened: Opened, beside: Sequence[str] = ()) -> bool:
    """Whether chats can be kept in it, `beside` those that are there."""
    store = ChatStore(opened.connection)
    store.save_chat(Chat("Title"))
    return [chat.title for chat in store.chats()] == ["Title", *beside]


def test_new_database_is_private_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "home" / "chats.sqlite3"
    opened = open_database(path)
    assert opened.saved
    assert opened.problem == ""
    assert works(opened)
    opened.connection.close()
    assert path.stat().st_mode & 0o077 == 0
    again = open_database(path)
    assert [chat.title for chat in ChatStore(again.connection).chats()] == ["Title"]
    again.connection.close()


@pytest.mark.parametrize(
    "content", [b"this is no database, however long it may be" * 200, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_damaged_file_is_moved_aside_and_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "chats.sqlite3"
    path.write_bytes(content)
    opened = open_database(path)
    assert opened.saved
    assert "damaged" in opened.problem
    assert works(opened)
    opened.connection.close()
    kept = [file for file in tmp_path.iterdir() if ".damaged-" in file.name]
    assert [file.read_bytes() for file in kept] == [content]


def test_a_damaged_file_that_two_find_is_moved_aside_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content, start_over = tmp_path / "chats.sqlite3", b"no database" * 1000, database._start_over
    path.write_bytes(content)

    def overtaken(*arguments: Any) -> Opened:
        monkeypatch.setattr(database, "_start_over", start_over)
        other = open_database(path)
        assert "damaged" in other.problem
        assert works(other)
        other.connection.close()
        return start_over(*arguments)

    monkeypatch.setattr(database, "_start_over", overtaken)
    opened = open_database(path)
    assert (opened.saved, opened.problem) == (True, "")
    assert [chat.title for chat in ChatStore(opened.connection).chats()] == ["Title"]
    opened.connection.close()
    kept = [file for file in tmp_path.iterdir() if ".damaged-" in file.name]
    assert [file.read_bytes() for file in kept] == [content]


def test_database_damaged_in_the_middle_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    opened = open_database(path)
    for number in range(200):
        ChatStore(opened.connection).save_chat(Chat(f"Chat {number} " + "x" * 200))
    opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.connection.close()
    content = bytearray(path.read_bytes())
    content[8192:24576] = b"\x55" * 16384
    path.write_bytes(content)
    again = open_database(path)
    assert "damaged" in again.problem
    assert works(again)
    again.connection.close()


def test_newer_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE from_the_future (x)")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 5}")
    connection.commit()
    connection.close()
    opened = open_database(path)
    assert not opened.saved
    assert "newer" in opened.problem
    assert works(opened)
    opened.connection.close()
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    connection.close()
    assert tables == [("from_the_future",)]


def test_folder_that_cannot_be_made_means_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    opened = open_database(tmp_path / "file" / "home" / "chats.sqlite3")
    assert not opened.saved
    assert "memory" in opened.problem
    assert str(tmp_path / "file" / "home") in opened.problem
    assert works(opened)
    opened.connection.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder_means_memory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    opened = open_database(home / "chats.sqlite3")
    assert not opened.saved
    assert works(opened)
    opened.connection.close()


def test_locked_database_means_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.database.BUSY_SECONDS", 0.05)
    path = tmp_path / "chats.sqlite3"
    holder = open_database(path).connection
    holder.execute("BEGIN IMMEDIATE")
    opened = open_database(path)
    assert not opened.saved
    assert "locked" in opened.problem
    assert "End the other program" in opened.problem
    opened.connection.close()
    holder.close()


def _keep(path: Path, title: str) -> None:
    opened = open_database(path)
    ChatStore(opened.connection).save_chat(Chat(title))
    opened.connection.close()


def test_chats_that_another_program_holds_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.database.BUSY_SECONDS", 0.05)
    path = tmp_path / "a folder? of #1" / "chats.sqlite3"
    _keep(path, "There")
    with closing(open_database(path).connection) as holder:
        ChatStore(holder).save_chat(Chat("Not in the file yet"))
        holder.execute("BEGIN IMMEDIATE")
        with closing(open_database(path).connection) as connection:
            store = ChatStore(connection)
            assert {chat.title for chat in store.chats()} == {"There", "Not in the file yet"}
            store.save_chat(Chat("Of this session"))
        holder.execute("ROLLBACK")
        assert {chat.title for chat in ChatStore(holder).chats()} == {"There", "Not in the file yet"}


def test_chats_are_shown_where_nothing_can_be_written_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    _keep(path, "There")
    before = path.read_bytes()
    (tmp_path / "chats.sqlite3-shm").mkdir()  # as on a full disk, SQLite has nothing to write ahead with
    opened = open_database(path)
    assert not opened.saved
    assert "cannot be saved" in opened.problem
    assert "cannot be read" not in opened.problem
    assert works(opened, beside=["There"])
    opened.connection.close()
    assert path.read_bytes() == before


def test_of_a_damaged_file_that_cannot_be_written_nothing_is_shown_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    _keep(path, "There")
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096)
    (tmp_path / "chats.sqlite3-shm").mkdir()
    opened = open_database(path)
    assert not opened.saved
    assert "was damaged, and the chats in it cannot be read" in opened.problem
    assert works(opened)
    opened.connection.close()


def test_what_can_be_neither_written_nor_read_is_said_to_be_there(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    path.mkdir()
    opened = open_database(path)
    assert not opened.saved
    assert "The chats that are there cannot be read now" in opened.problem
    assert works(opened)
    opened.connection.close()


class _Overtaken(sqlite3.Connection):
    """A connection that another program overtakes when it is about to write for the first time."""

    overtake: Callable[[], None] | None = None

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "BEGIN IMMEDIATE" and self.overtake is not None:
            overtake, self.overtake = self.overtake, None
            overtake()
        return super().execute(sql, *parameters)


def test_another_program_may_make_the_tables_first(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    connection = sqlite3.connect(path, isolation_level=None, factory=_Overtaken)
    connection.overtake = lambda: open_database(path).connection.close()
    migrate(connection)
    assert version_of(connection) == len(MIGRATIONS)
    ChatStore(connection).save_chat(Chat("Title"))
    connection.close()


def test_several_programs_may_start_at_once(tmp_path: Path) -> None:
    for round in range(10):
        path = tmp_path / f"{round}.sqlite3"
        with ThreadPoolExecutor(3) as pool:
            opened = list(pool.map(open_database, [path] * 3))
        assert [one.problem for one in opened] == [""] * 3
        for one in opened:
            one.connection.close()
