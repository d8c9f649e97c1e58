"""Opening the database file: whatever is wrong with it, a usable connection and a line that says so."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from app.store.schema import MIGRATIONS, Migration, NewerDatabase, check_version, migrate

BUSY_SECONDS = 2.0

_starting_over = threading.Lock()


@dataclass(frozen=True, slots=True)
class Kind:
    """What a database is for.

    Attributes:
        migrations: its schema.
        holds: what is in it, in lower case and the plural: "chats".
        probe: a statement that writes and changes nothing.
        is_shown: whether what there is can be read where it cannot be written: from a copy in memory.
    """

    migrations: tuple[Migration, ...]
    holds: str
    probe: str
    is_shown: bool = True


_MAKE_ROOM = "Free some space or make the folder writable"

CHATS = Kind(MIGRATIONS, "chats", "UPDATE chats SET title = title WHERE id = ''")


@dataclass(frozen=True, slots=True)
class Opened:
    """A migrated connection; `problem` is one line for people, "" when all is well.

    `saved` is False when the connection is in memory and nothing outlives the app.
    """

    connection: sqlite3.Connection
    problem: str
    saved: bool


def open_database(path: Path, kind: Kind = CHATS) -> Opened:
    """Open or create `path`. A broken file is moved aside; what cannot be written is copied into memory."""
    before = _file_at(path)
    try:
        return Opened(_connect(path, kind), "", saved=True)
    except NewerDatabase:
        problem = (
            f"{path} was written by a newer MLXR. It is left as it is; this session's {kind.holds} are kept "
            f"in memory only. Update MLXR to see your {kind.holds}."
        )
        return _in_memory(kind, problem)
    except OSError as error:
        return _copied(path, kind, _unwritable(path, kind, error.strerror or str(error)))
    except sqlite3.OperationalError as error:
        is_held = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
        remedy = "End the other program that is writing there" if is_held else _MAKE_ROOM
        return _copied(path, kind, _unwritable(path, kind, str(error), remedy))
    except sqlite3.DatabaseError:
        return _start_over(path, kind, before)


def _connect(path: Path, kind: Kind) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Created first, so that it is private from the start; SQLite gives its side files the same mode.
    path.touch(mode=0o600, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, kind)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, kind: Kind) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    if check_version(connection, kind.migrations) == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _use_wal(connection)
    # WAL with NORMAL survives the death of the process; only a power cut may lose the last moments.
    connection.execute("PRAGMA synchronous = NORMAL")
    migrate(connection, kind.migrations)
    _check(connection)
    # A read-only file opens without complaint; a write that changes nothing finds out now.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(kind.probe)
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise sqlite3.DatabaseError("quick_check failed")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Write ahead. SQLite itself does not wait here for another program that is just doing the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _copied(path: Path, kind: Kind, problem: str) -> Opened:
    """What can be read of the database at `path`, in memory.

    Without room for the side files that readers share, its file is read as it is, without what another
    program has not written to it yet.
    """
    if kind.is_shown:
        for how in ("mode=ro", "mode=ro&immutable=1"):
            source = f"{path.absolute().as_uri()}?{how}"
            with suppress(sqlite3.Error, NewerDatabase):
                return _in_memory(kind, problem, source)
        if path.exists():
            problem += f" The {kind.holds} that are there cannot be read now."
    return _in_memory(kind, problem)


def _in_memory(kind: Kind, problem: str, source: str | None = None) -> Opened:
    """`source`: the URI of what is copied. Raises sqlite3.Error where that cannot be."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        if source is not None:
            with closing(sqlite3.connect(source, timeout=BUSY_SECONDS, uri=True)) as file:
                file.backup(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        migrate(connection, kind.migrations)
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, problem, saved=False)


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file it is; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _start_over(path: Path, kind: Kind, damaged: tuple[int, int] | None) -> Opened:
    """`damaged`: which file was found to be. Another one is of who found it too, and is left to its user."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        with _starting_over:
            if damaged is not None and _file_at(path) != damaged:
                return Opened(_connect(path, kind), "", saved=True)
            path.replace(aside)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            connection = _connect(path, kind)
    except (OSError, sqlite3.Error) as error:
        problem = f"{path} was damaged, and the {kind.holds} in it cannot be read. "
        return _in_memory(kind, problem + _unwritable(path, kind, str(error)))
    return Opened(
        connection, f"{path} was damaged. It was moved to {aside.name} and a new one was started.", saved=True
    )


def _unwritable(path: Path, kind: Kind, reason: str, remedy: str = _MAKE_ROOM) -> str:
    return (
        f"{kind.holds.capitalize()} cannot be saved in {path.parent} ({reason}); what is new or changed in "
        f"this session is kept in memory only. {remedy}, then start MLXR again."
    )
