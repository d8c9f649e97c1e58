"""Downloads that are not finished, kept in SQLite, so that they go on after a crash or a restart.

How far a download has come is not written here: the parts in the cache tell.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from app.downloads.wanted import Plan, PlannedFile, Wanted
from app.errors import AppError
from app.store.database import Kind, open_database

log = logging.getLogger(__name__)

State = Literal["waiting", "paused", "failed"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A download that is not finished.

    Attributes:
        plan: what it fetches, None before the hub was asked.
        state: "waiting" also while it runs: whoever runs it may die.
        words: why it failed, else "".
    """

    id: int
    wanted: Wanted
    plan: Plan | None
    state: State
    words: str


def _tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE downloads (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            repo TEXT NOT NULL,
            quant TEXT NOT NULL,
            file TEXT NOT NULL,
            revision TEXT NOT NULL,
            plan TEXT NOT NULL,
            state TEXT NOT NULL,
            words TEXT NOT NULL,
            added REAL NOT NULL,
            UNIQUE (repo, quant, file, revision)
        )"""
    )


def _no_dates(connection: sqlite3.Connection) -> None:
    # Downloads stand in the order of their numbers; nobody asked when one was added.
    connection.execute("ALTER TABLE downloads DROP COLUMN added")


DOWNLOADS = Kind(
    (_tables, _no_dates),
    "downloads",
    "UPDATE downloads SET words = words WHERE id = 0",
    is_shown=False,  # nobody else would hear that they go on
)


class Journal:
    """The database at `path`, shared by processes and threads; memory where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        opened = open_database(path, DOWNLOADS)
        self._connection = opened.connection
        self._path = path
        self.problem = opened.problem
        """One line on what is wrong with the file, "" when all is well."""

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()

    def add(self, wanted: Wanted) -> Entry:
        """Note the request; one that is noted already waits again, with its plan. Raises AppError."""
        key = (wanted.repo, wanted.quant, wanted.file, wanted.revision)
        try:
            with self._lock:
                self._connection.execute(
                    """INSERT INTO downloads (repo, quant, file, revision, plan, state, words)
                    VALUES (?, ?, ?, ?, '', 'waiting', '')
                    ON CONFLICT DO UPDATE SET state = 'waiting', words = ''""",
                    key,
                )
                where = "WHERE repo = ? AND quant = ? AND file = ? AND revision = ?"
                return _entry(self._connection.execute(f"{_SELECT} {where}", key).fetchone())
        except sqlite3.Error as error:
            raise AppError(
                f"the download cannot be noted in {self._path} ({error}); make room there"
            ) from None

    def pending(self) -> list[Entry]:
        """Every download that is not finished, the oldest first. Raises AppError."""
        try:
            with self._lock:
                rows = self._connection.execute(f"{_SELECT} ORDER BY id").fetchall()
        except sqlite3.Error as error:
            raise AppError(f"downloads cannot be read from {self._path} ({error})") from None
        return [_entry(row) for row in rows]

    def drop_plan(self, id_: int) -> None:
        """The hub is to be asked anew what the download fetches."""
        self._write("UPDATE downloads SET plan = '' WHERE id = ?", id_)

    def note_plan(self, id_: int, plan: Plan) -> None:
        """Keep what the download fetches: after a restart it is the same commit."""
        files = [[file.name, file.size, file.blob] for file in plan.files]
        self._write(
            "UPDATE downloads SET plan = ? WHERE id = ?", json.dumps([plan.commit, files, plan.choice]), id_
        )

    def note_state(self, id_: int, state: State, words: str = "") -> None:
        """Keep how it stands."""
        self._write("UPDATE downloads SET state = ?, words = ? WHERE id = ?", state, words, id_)

    def forget(self, id_: int) -> None:
        """It is finished, or given up."""
        self._write("DELETE FROM downloads WHERE id = ?", id_)

    def _write(self, statement: str, *values: object) -> None:
        """What cannot be written is no loss: the download is pending as before, and finds its parts."""
        try:
            with self._lock:
                self._connection.execute(statement, values)
        except sqlite3.Error as error:
            log.warning("%s: %s", self._path, error)


def waiting_repos(path: Path) -> frozenset[str]:
    """Repositories that the journal at `path` has unfinished downloads of. Raises AppError."""
    if not path.exists():
        return frozenset()
    with closing(Journal(path)) as journal:
        return frozenset(entry.wanted.repo for entry in journal.pending())


_SELECT = "SELECT id, repo, quant, file, revision, plan, state, words FROM downloads"


def _entry(row: tuple[int, str, str, str, str, str, State, str]) -> Entry:
    id_, repo, quant, file, revision, plan, state, words = row
    return Entry(id_, Wanted(repo, quant, file, revision), _plan(plan), state, words)


def _plan(text: str) -> Plan | None:
    if not text:
        return None
    commit, files, choice = cast(tuple[str, list[tuple[str, int, str]], str], json.loads(text))
    return Plan(commit, tuple(PlannedFile(name, size, blob) for name, size, blob in files), choice)
