"""A thread that owns one database: others hand it values and questions, and never wait."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from app.store.database import Kind, open_database

log = logging.getLogger(__name__)

RETRY_SECONDS = 3.0
Post = Callable[[Callable[[], None]], None]


class Named(Protocol):
    """A value to be saved; one of the same `id` that is newer takes its place."""

    @property
    def id(self) -> str:
        """A name that no other value has."""
        ...


S = TypeVar("S")
V = TypeVar("V", bound=Named)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Keeping(Generic[S, V]):
    """What a database's thread does with it.

    Attributes:
        kind: of the database.
        store: makes what the jobs ask, for a connection in autocommit mode.
        begin: is run once, in a transaction, before everything else.
        save: writes one value.
        cannot_save: for people, with {reason}: it is tried again.
        ended: for people, with {reason}: it is not.
    """

    kind: Kind
    store: Callable[[sqlite3.Connection], S]
    begin: Callable[[S], object]
    save: Callable[[S, V], None]
    cannot_save: str
    ended: str


class DatabaseWorker(Generic[S, V]):
    """Saves and reads on a thread of its own.

    `post` runs a callable on the caller's thread later; results and problems come back through it.
    `on_problem` gets one line for people, or "" when a problem is over. What could not be saved is tried
    again.
    """

    def __init__(
        self, keeping: Keeping[S, V], path: Path, post: Post, on_problem: Callable[[str], None]
    ) -> None:
        self._keeping = keeping
        self._path = path
        self._post = post
        self._on_problem = on_problem
        self._jobs: SimpleQueue[V | Callable[[S], None] | None] = SimpleQueue()
        self._unsaved: dict[str, V] = {}
        self._failing = False
        self._standing_problem = ""
        self._thread = threading.Thread(target=self._run, name=f"mlxr-{path.stem}", daemon=True)

    def start(self) -> None:
        """Open the database and start serving."""
        self._thread.start()

    def save(self, value: V) -> None:
        """Save the value; a newer one of the same id replaces one that still waits."""
        self._jobs.put(value)

    def change(self, change: Callable[[S], None]) -> None:
        """Run a change after everything saved so far."""
        self._jobs.put(change)

    def ask(self, question: Callable[[S], T], then: Callable[[T], None]) -> None:
        """Answer a question after everything saved so far; `then` gets the answer on the caller's thread."""

        def job(store: S) -> None:
            answer = question(store)
            self._post(lambda: then(answer))

        self._jobs.put(job)

    def close(self, timeout: float | None = None) -> bool:
        """Save what waits, close the database and join. Returns whether the thread ended in time."""
        if self._thread.ident is None:
            return True
        self._jobs.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # the top of this thread: what nobody foresaw is told, not lost
            log.exception("the thread of %s ended", self._path.name)
            self._tell(self._keeping.ended.format(reason=error))

    def _work(self) -> None:
        opened = open_database(self._path, self._keeping.kind)
        self._standing_problem = opened.problem
        if opened.problem:
            self._tell(opened.problem)
        with closing(opened.connection):
            store = self._keeping.store(opened.connection)
            self._guard(opened.connection, lambda: self._keeping.begin(store))
            running = True
            while running:
                running = self._serve(opened.connection, store)

    def _serve(self, connection: sqlite3.Connection, store: S) -> bool:
        """Handle everything queued, saves first and in one transaction. False when it is time to end."""
        changes, running = self._gather()
        if self._unsaved:
            saved = self._guard(connection, lambda: self._save_all(store))
            if saved:
                self._unsaved.clear()
        for change in changes:
            self._guard(connection, lambda change=change: change(store))
        return running

    def _gather(self) -> tuple[list[Callable[[S], None]], bool]:
        """Wait for a job, then take saves up to and including the next change, so that order is kept."""
        try:
            job = self._jobs.get(timeout=RETRY_SECONDS if self._unsaved else None)
        except Empty:
            return [], True
        while True:
            if job is None:
                return [], False
            if callable(job):
                return [job], True
            self._unsaved[job.id] = job
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return [], True

    def _save_all(self, store: S) -> None:
        for value in self._unsaved.values():
            self._keeping.save(store, value)

    def _guard(self, connection: sqlite3.Connection, work: Callable[[], object]) -> bool:
        """Run `work` in a transaction; a failing database is told, not raised."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                work()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            if not self._failing:  # once: it is tried again several times a second
                log.warning("%s: %s", self._path.name, error)
                self._tell(self._keeping.cannot_save.format(reason=error))
            self._failing = True
            return False
        if self._failing:
            self._failing = False
            self._tell(self._standing_problem)
        return True

    def _tell(self, problem: str) -> None:
        self._post(lambda: self._on_problem(problem))
