"""One transaction of several works, without those that fail by themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

OWN_ERRORS = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
"""Errors of what is written, which would be the same at every try."""


def run_together(connection: sqlite3.Connection, works: Sequence[Callable[[], object]]) -> list[Exception]:
    """Run `works` in a transaction. Returns the errors of those that failed by themselves: nothing is left
    of them, and the others are written.

    Raises sqlite3.Error where the database is full, held by another program or broken: nothing is written.
    """
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
    except Exception as error:
        if isinstance(error, sqlite3.Error) and not isinstance(error, OWN_ERRORS):
            raise
        connection.execute("ROLLBACK TO work")
        return error
    finally:
        if connection.in_transaction:
            connection.execute("RELEASE work")
    return None
