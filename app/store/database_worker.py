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
        cannot_read: for people, with {reason}.
        ended: for people, with {reason}: it is not.
    """

    kind: Kind
    store: Callable[[sqlite3.Connection], S]
    begin: Callable[[S], object]
    save: Callable[[S, V], None]
    cannot_save: str
    cannot_read: str
    ended: str


@dataclass(frozen=True, slots=True)
class _Change(Generic[S]):
    """What is to be run in a transaction."""

    run: Callable[[S], None]


@dataclass(frozen=True, slots=True)
class _Question(Generic[S]):
    """What only reads; `failed` is told why there is no answer, without it whoever hears of problems."""

    run: Callable[[S], None]
    failed: Callable[[str], None] | None


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
        self._jobs: SimpleQueue[V | _Change[S] | _Question[S] | None] = SimpleQueue()
        self._unsaved: dict[str, V] = {}
        self._is_over = False
        self._trouble = ""
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
        self._jobs.put(_Change(change))

    def ask(
        self,
        question: Callable[[S], T],
        then: Callable[[T], None],
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Answer a question after everything saved so far; `question` only reads.

        `then` gets the answer on the caller's thread; where there is none, `failed` gets a line why, or
        without it `on_problem` does.
        """

        def run(store: S) -> None:
            answer = question(store)
            self._post(lambda: then(answer))

        self._jobs.put(_Question(run, failed))
        if self._is_over:
            self._give_up()

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
            self._is_over = True
            self._give_up()

    def _give_up(self) -> None:
        """Nobody will answer what waits."""
        while not self._jobs.empty():
            try:
                job = self._jobs.get_nowait()
            except Empty:  # the other thread gives up as well
                return
            if isinstance(job, _Question) and job.failed is not None:
                self._refuse(job, "its thread has ended; start MLXR again")

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
        jobs, running = self._gather()
        if self._unsaved:
            saved = self._guard(connection, lambda: self._save_all(store))
            if saved:
                self._unsaved.clear()
        for job in jobs:
            if isinstance(job, _Question):
                self._answer(connection, store, job)
            else:
                self._guard(connection, lambda job=job: job.run(store))
        return running

    def _gather(self) -> tuple[list[_Change[S] | _Question[S]], bool]:
        """Wait for a job, then take saves up to and including the next job, so that order is kept."""
        try:
            job = self._jobs.get(timeout=RETRY_SECONDS if self._unsaved else None)
        except Empty:
            return [], True
        while True:
            if job is None:
                return [], False
            if isinstance(job, _Change | _Question):
                return [job], True
            self._unsaved[job.id] = job
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return [], True

    def _save_all(self, store: S) -> None:
        for value in self._unsaved.values():
            self._keeping.save(store, value)

    def _answer(self, connection: sqlite3.Connection, store: S, question: _Question[S]) -> None:
        """Run a question; one that fails hurts nobody but who asked."""
        try:
            connection.execute("BEGIN")
            try:
                question.run(store)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except Exception as error:
            log.warning("%s: a question failed", self._path.name, exc_info=error)
            self._refuse(question, str(error) or repr(error))

    def _refuse(self, question: _Question[S], reason: str) -> None:
        words, failed = self._keeping.cannot_read.format(reason=reason), question.failed
        if failed is None:
            self._note_trouble(words)
        else:
            self._post(lambda: failed(words))

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
            self._note_trouble(self._keeping.cannot_save.format(reason=error))
            return False
        if self._trouble:
            self._trouble = ""
            self._tell(self._standing_problem)
        return True

    def _note_trouble(self, words: str) -> None:
        if words != self._trouble:  # once: it is tried again several times a second
            log.warning("%s: %s", self._path.name, words)
            self._tell(words)
        self._trouble = words

    def _tell(self, problem: str) -> None:
        self._post(lambda: self._on_problem(problem))
