"""Works in one transaction: one that fails by itself is left out; a failing database takes none."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import pytest

from app.store.transaction import run_together


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE words (word TEXT UNIQUE)")
    yield connection
    connection.close()


def adding(database: sqlite3.Connection, *words: str) -> Callable[[], None]:
    def work() -> None:
        for word in words:
            database.execute("INSERT INTO words VALUES (?)", (word,))

    return work


def words_in(database: sqlite3.Connection) -> list[str]:
    return [word for (word,) in database.execute("SELECT word FROM words ORDER BY rowid")]


def test_what_fails_by_itself_is_left_out(database: sqlite3.Connection) -> None:
    works = [
        adding(database, "a"),
        adding(database, "b", "\ud800"),
        adding(database, "c", "a"),
        lambda: [][0],
    ]
    errors = run_together(database, [*works, adding(database, "d")])
    assert [type(error) for error in errors] == [UnicodeEncodeError, sqlite3.IntegrityError, IndexError]
    assert words_in(database) == ["a", "d"]


def test_a_database_that_fails_takes_nothing(database: sqlite3.Connection) -> None:
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    with pytest.raises(sqlite3.OperationalError, match="full"):
        run_together(database, [adding(database, "a"), adding(database, "x" * 100_000)])
    assert words_in(database) == []
    database.execute("PRAGMA max_page_count = 1000000").fetchall()
    assert run_together(database, [adding(database, "b")]) == []
    assert words_in(database) == ["b"]
