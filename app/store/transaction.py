"""One transaction of several works, without those that fail by themselves; and trying without waiting."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

OWN_ERRORS = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
"""Errors of what is written, which would be the same at every try."""


def run_together(connection: sqlite3.Connection, works: Sequence[Callable[[], object]]) -> list[Exception]:
    """Run `works` in a transaction. Returns the errors of those that failed by themselves: nothing is left
    of them, and the others are written.

    Raises sqlite3.Error where the database is full, held by another program or broken, or there is no memory
    for it: nothing is written.
    """
    try:
        return _together(connection, works)
    except MemoryError as error:  # what sqlite3 makes of SQLITE_NOMEM
        raise sqlite3.OperationalError("out of memory") from error


@contextmanager
def without_waiting(connection: sqlite3.Connection) -> Generator[None]:
    """What is tried within fails at once where another program holds the database."""
    milliseconds = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {milliseconds}")


def _together(connection: sqlite3.Connection, works: Sequence[Callable[[], object]]) -> list[Exception]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        errors = [error for work in works if (error := _attempt(connection, work))]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return errors


def _attempt(connection: sqlite3.Connection, work: Callable[[], object]) -> Exception | None:
    connection.execute("SAVEPOINT work")
    try:
        work()
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, sqlite3.Error) and not isinstance(error, OWN_ERRORS):
            raise
        connection.execute("ROLLBACK TO work")
        return error
    finally:
        if connection.in_transaction:
            connection.execute("RELEASE work")
    return None
