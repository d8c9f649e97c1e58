"""A thread that owns one database: others hand it values and questions, and never wait."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from app.store.database import Kind, open_database
from app.store.transaction import run_together, without_waiting
from app.store.waiting import Change, Named, Waiting

log = logging.getLogger(__name__)

RETRY_SECONDS = 3.0
_HAS_ENDED = "its thread has ended; start MLXR again"
Post = Callable[[Callable[[], None]], None]


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
        not_saved: for people, with {reason}: MLXR ends without it.
        lost: for people, with {reason}: one value or change is not written, and not tried again.
        cannot_read: for people, with {reason}.
        ended: for people, with {reason}: it is not.
    """

    kind: Kind
    store: Callable[[sqlite3.Connection], S]
    begin: Callable[[S], object]
    save: Callable[[S, V], None]
    cannot_save: str
    not_saved: str
    lost: str
    cannot_read: str
    ended: str


@dataclass(frozen=True, slots=True)
class _Question(Generic[S]):
    """What only reads; `failed` is told why there is no answer, without it whoever hears of problems."""

    run: Callable[[S], None]
    failed: Callable[[str], None] | None


class DatabaseWorker(Generic[S, V]):
    """Saves and reads on a thread of its own.

    `post` runs a callable on the caller's thread later; results and problems come back through it.
    `on_problem` gets one line for people, or "" when a problem is over. What a database that is full or held
    by another program did not take is tried again, in order; what fails by itself is left out, and told.
    """

    def __init__(
        self, keeping: Keeping[S, V], path: Path, post: Post, on_problem: Callable[[str], None]
    ) -> None:
        self._keeping = keeping
        self._path = path
        self._post = post
        self._on_problem = on_problem
        self._jobs: SimpleQueue[V | Change[S] | _Question[S] | None] = SimpleQueue()
        self._waiting: Waiting[S, V] = Waiting()
        self._question: _Question[S] | None = None
        self._is_over = False
        self._trouble = ""
        self._reason = ""
        self._standing_problem = ""
        self._loss = ""
        self._thread = threading.Thread(target=self._run, name=f"mlxr-{path.stem}", daemon=True)

    def start(self) -> None:
        """Open the database and start serving."""
        self._thread.start()

    def save(self, value: V) -> None:
        """Save the value; it replaces one of the same id that still waits behind the last change."""
        self._jobs.put(value)

    def change(
        self,
        change: Callable[[S], object],
        then: Callable[[], None] | None = None,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Run a change after everything saved so far, and before everything that is saved later.

        `then` is called on the caller's thread when it is written. Where it never will be, `failed` gets the
        reason there, and `on_problem` a line.
        """
        self._jobs.put(Change(change, then, failed))
        if self._is_over:
            self._give_up()

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
        """Try once more to save what waits, close the database and join.

        Returns whether the thread ended in time; what it could not save is told and logged.
        """
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
            for job in (*self._waiting.changes(), self._question):
                self._disappoint(job)
            self._give_up()

    def _give_up(self) -> None:
        """Nobody will answer what waits."""
        while not self._jobs.empty():
            try:
                job = self._jobs.get_nowait()
            except Empty:  # the other thread gives up as well
                return
            self._disappoint(job)

    def _disappoint(self, job: V | Change[S] | _Question[S] | None) -> None:
        """Tell who waits for a job that the thread has ended."""
        if isinstance(job, _Question) and job.failed is not None:
            self._refuse(job, _HAS_ENDED)
        elif isinstance(job, Change) and job.failed is not None:
            self._post(partial(job.failed, _HAS_ENDED))

    def _work(self) -> None:
        opened = open_database(self._path, self._keeping.kind)
        self._standing_problem = opened.problem
        if opened.problem:
            self._tell(opened.problem)
        with closing(opened.connection):
            store = self._keeping.store(opened.connection)
            self._waiting.add(Change(self._keeping.begin))
            self._write(opened.connection, store)
            running = True
            while running:
                running = self._serve(opened.connection, store)
            if self._waiting:
                log.error("%s was closed without what could not be saved: %s", self._path.name, self._waiting)
                self._tell(self._keeping.not_saved.format(reason=self._reason))

    def _serve(self, connection: sqlite3.Connection, store: S) -> bool:
        """Handle everything queued up to and including a question. False when it is time to end.

        Of the tries of what waits, only the first and the last wait for another program: each question, and
        the end, would come behind seconds more.
        """
        was_held_up = bool(self._waiting)
        self._question, running = self._gather()
        with without_waiting(connection) if was_held_up and running else nullcontext():
            self._write(connection, store)
        if self._question is not None:
            self._answer(connection, store, self._question)
        return running

    def _gather(self) -> tuple[_Question[S] | None, bool]:
        """Wait for a job, then take what is to be written, up to a question, so that order is kept."""
        try:
            job = self._jobs.get(timeout=RETRY_SECONDS if self._waiting else None)
            while job is not None:
                if isinstance(job, _Question):
                    return job, True
                self._waiting.add(job)
                job = self._jobs.get_nowait()
        except Empty:
            return None, True
        return None, False

    def _write(self, connection: sqlite3.Connection, store: S) -> None:
        """Write what waits, in order; what the database does not take stays, with all that is behind it."""
        if not self._waiting:
            return
        while self._waiting:
            first = self._waiting.first()
            if isinstance(first, Change):
                works = [partial(first.run, store)]
            else:
                works = [partial(self._keeping.save, store, value) for value in first]
            try:
                errors = run_together(connection, works)
            except sqlite3.Error as error:
                self._reason = str(error)
                self._note_trouble(self._keeping.cannot_save.format(reason=error))
                return
            self._waiting.written()
            for error in errors:
                self._note_loss(error)
            if isinstance(first, Change):
                self._report(first, errors)
        if self._trouble:
            self._trouble = ""
            self._tell(self._standing())

    def _report(self, change: Change[S], errors: list[Exception]) -> None:
        then, failed = change.then, change.failed
        if not errors and then is not None:
            self._post(then)
        if errors and failed is not None:
            self._post(partial(failed, _reason(errors[0])))

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
            self._refuse(question, _reason(error))

    def _refuse(self, question: _Question[S], reason: str) -> None:
        words, failed = self._keeping.cannot_read.format(reason=reason), question.failed
        if failed is None:
            self._note_trouble(words)
        else:
            self._post(lambda: failed(words))

    def _note_loss(self, error: Exception) -> None:
        words = self._keeping.lost.format(reason=_reason(error))
        if words != self._loss:  # once: a value may be saved several times a second
            log.error("%s: %s", self._path.name, words, exc_info=error)
            self._loss = words
            if not self._trouble:
                self._tell(self._standing())

    def _note_trouble(self, words: str) -> None:
        if words != self._trouble:  # once: it is tried again several times a second
            log.warning("%s: %s", self._path.name, words)
            self._tell(words)
        self._trouble = words

    def _standing(self) -> str:
        """What stays true until MLXR ends."""
        return " ".join(filter(None, (self._standing_problem, self._loss)))

    def _tell(self, problem: str) -> None:
        self._post(lambda: self._on_problem(problem))


def _reason(error: Exception) -> str:
    return str(error) or repr(error)
