"""The thread that owns the database: the window hands it values and questions, and never waits."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from app.store.chats import ChatStore
from app.store.database import open_database
from app.store.records import Chat, ChatMessage

log = logging.getLogger(__name__)

T = TypeVar("T")
Post = Callable[[Callable[[], None]], None]
RETRY_SECONDS = 3.0

CANNOT_SAVE = "Chats cannot be saved right now ({reason}). This chat is kept in memory; MLXR keeps trying."
ENDED = "Chats can no longer be saved ({reason}). Start MLXR again; what is on the screen is in memory only."


class StoreWorker:
    """Saves and reads conversations on a thread of its own.

    `post` runs a callable on the caller's thread later; results and problems come back through it.
    `on_problem` gets one line for people, or "" when a problem is over. What could not be saved is tried
    again.
    """

    def __init__(self, path: Path, post: Post, on_problem: Callable[[str], None]) -> None:
        self._path = path
        self._post = post
        self._on_problem = on_problem
        self._jobs: SimpleQueue[Callable[[ChatStore], None] | Chat | ChatMessage | None] = SimpleQueue()
        self._unsaved: dict[str, Chat | ChatMessage] = {}
        self._failing = False
        self._standing_problem = ""
        self._thread = threading.Thread(target=self._run, name="mlxr-store", daemon=True)

    def start(self) -> None:
        """Open the database and start serving."""
        self._thread.start()

    def save(self, value: Chat | ChatMessage) -> None:
        """Save the value; a newer one of the same id replaces one that still waits."""
        self._jobs.put(value)

    def change(self, change: Callable[[ChatStore], None]) -> None:
        """Run a change after everything saved so far."""
        self._jobs.put(change)

    def ask(self, question: Callable[[ChatStore], T], then: Callable[[T], None]) -> None:
        """Answer a question after everything saved so far; `then` gets the answer on the caller's thread."""

        def job(store: ChatStore) -> None:
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
            log.exception("the conversations thread ended")
            self._tell(ENDED.format(reason=error))

    def _work(self) -> None:
        opened = open_database(self._path)
        self._standing_problem = opened.problem
        if opened.problem:
            self._tell(opened.problem)
        with closing(opened.connection):
            store = ChatStore(opened.connection)
            self._guard(opened.connection, lambda: (store.close_interrupted(), store.purge_trash()))
            running = True
            while running:
                running = self._serve(opened.connection, store)

    def _serve(self, connection: sqlite3.Connection, store: ChatStore) -> bool:
        """Handle everything queued, saves first and in one transaction. False when it is time to end."""
        changes, running = self._gather()
        if self._unsaved:
            saved = self._guard(connection, lambda: self._save_all(store))
            if saved:
                self._unsaved.clear()
        for change in changes:
            self._guard(connection, lambda change=change: change(store))
        return running

    def _gather(self) -> tuple[list[Callable[[ChatStore], None]], bool]:
        """Wait for a job, then take saves up to and including the next change, so that order is kept."""
        try:
            job = self._jobs.get(timeout=RETRY_SECONDS if self._unsaved else None)
        except Empty:
            return [], True
        while True:
            if job is None:
                return [], False
            if not isinstance(job, Chat | ChatMessage):
                return [job], True
            self._unsaved[job.id] = job
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return [], True

    def _save_all(self, store: ChatStore) -> None:
        for value in self._unsaved.values():
            if isinstance(value, Chat):
                store.save_chat(value)
            else:
                store.save_message(value)

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
                log.warning("conversations database: %s", error)
                self._tell(CANNOT_SAVE.format(reason=error))
            self._failing = True
            return False
        if self._failing:
            self._failing = False
            self._tell(self._standing_problem)
        return True

    def _tell(self, problem: str) -> None:
        self._post(lambda: self._on_problem(problem))
