"""The store's thread while another program holds the database: nothing is lost, and the order stays."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.store import database, database_worker
from app.store.chats import ChatStore
from app.store.database_worker import DatabaseWorker
from app.store.records import Chat, ChatMessage
from app.store.worker import CHATS_KEPT
from tests.app.store.test_worker import PATIENCE, Owner, saved_chats

CHAT = Chat("Chat")


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    """Its database has CHAT; the thread waits for others, and for its next try, for a moment only."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(database_worker, "RETRY_SECONDS", 0.01)
    owner = Owner(tmp_path / "chats.sqlite3")
    owner.worker.start()
    owner.worker.save(CHAT)
    owner.answer(lambda store: store.chats())
    yield owner
    assert owner.worker.close(PATIENCE)


@contextmanager
def held(owner: Owner) -> Generator[None]:
    """Another connection is in the middle of writing, till what was given within was tried."""
    other = sqlite3.connect(owner.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    owner.run_until(lambda: bool(owner.problems))
    assert "database is locked" in owner.problems[0]
    other.close()


def titles(owner: Owner) -> object:
    return owner.answer(lambda store: [chat.title for chat in store.chats()])


def test_what_was_held_up_is_done_and_the_line_withdrawn(owner: Owner) -> None:
    pinned, kept = Chat("pinned"), Chat("kept")
    owner.worker.save(pinned)
    owner.worker.save(kept)
    owner.worker.change(lambda store: store.trash(kept.id))
    assert titles(owner) == ["pinned", "Chat"]
    with held(owner):
        owner.worker.change(lambda store: store.trash(CHAT.id))
        owner.worker.change(lambda store: store.restore(kept.id))
        owner.worker.change(lambda store: store.pin(pinned.id, True))
        owner.worker.change(lambda store: store.rename(pinned.id, "Renamed"))
        assert titles(owner) == ["pinned", "Chat"]
    owner.run_until(lambda: owner.problems[-1] == "")
    assert titles(owner) == ["kept", "Renamed"]
    assert owner.answer(lambda store: store.pinned()) == [pinned.id]


@pytest.mark.parametrize(
    ("jobs", "title"),
    [
        (("save", "change"), "changed"),
        (("change", "save"), "saved"),
        (("save", "change", "save"), "saved"),
        (("change", "save", "change"), "changed"),
    ],
)
def test_saves_and_changes_that_were_held_up_keep_their_order(
    owner: Owner, jobs: tuple[str, ...], title: str
) -> None:
    with held(owner):
        for job in jobs:
            if job == "save":
                owner.worker.save(replace(CHAT, title="saved"))
            else:
                owner.worker.change(lambda store: store.rename(CHAT.id, "changed"))
    owner.run_until(lambda: owner.problems[-1] == "")
    assert titles(owner) == [title]


def test_the_line_stays_while_anything_waits(owner: Owner) -> None:
    """What comes first is taken when the database is free, what comes behind it still is not."""

    def fill(store: ChatStore) -> None:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]  # pyright: ignore[reportPrivateUsage]
        store._db.execute(f"PRAGMA max_page_count = {pages}").fetchall()  # pyright: ignore[reportPrivateUsage]

    with held(owner):
        owner.worker.change(fill)
        owner.worker.save(Chat("x" * 100_000))
        owner.worker.change(lambda store: store.rename(CHAT.id, "Renamed"))
    owner.run_until(lambda: "full" in owner.problems[-1])
    assert titles(owner) == ["Chat"]
    assert "" not in owner.problems
    owner.answer(
        lambda store: store._db.execute("PRAGMA max_page_count = 1000000").fetchall()  # pyright: ignore[reportPrivateUsage]
    )
    owner.run_until(lambda: owner.problems[-1] == "")
    assert titles(owner) == ["x" * 100_000, "Renamed"]


def test_who_changes_is_told_when_it_is_written(owner: Owner) -> None:
    told: list[str] = []
    with held(owner):
        owner.worker.change(lambda store: store.trash(CHAT.id), lambda: told.append("done"), told.append)
        assert titles(owner) == ["Chat"]
        assert told == []
    owner.run_until(lambda: bool(told))
    assert told == ["done"]
    assert titles(owner) == []


def test_closing_tries_once_more(owner: Owner) -> None:
    with held(owner):
        owner.worker.change(lambda store: store.trash(CHAT.id))
    assert owner.worker.close(PATIENCE)
    assert saved_chats(owner.path) == []


def test_what_closing_leaves_behind_is_said(owner: Owner, caplog: pytest.LogCaptureFixture) -> None:
    with held(owner), caplog.at_level(logging.ERROR):
        owner.worker.change(lambda store: store.trash(CHAT.id))
        owner.worker.save(Chat("later"))
        assert owner.worker.close(PATIENCE)
    assert "chats.sqlite3 was closed without what could not be saved: values: 1, changes: 1" in caplog.text
    owner.run_until(lambda: "could not be saved (database is locked)" in owner.problems[-1])
    assert saved_chats(owner.path) == [CHAT]


def test_the_first_thing_that_a_thread_does_waits_too(owner: Owner) -> None:
    """Another program begins to write just when the database was opened."""
    owner.worker.save(ChatMessage(CHAT.id, "assistant", "cut off", status="streaming"))
    owner.worker.save(trashed := Chat("in the trash"))
    owner.worker.change(lambda store: store.trash(trashed.id))
    assert owner.worker.close(PATIENCE)
    other = sqlite3.connect(owner.path, isolation_level=None, check_same_thread=False)

    def held_store(connection: sqlite3.Connection) -> ChatStore:
        other.execute("BEGIN IMMEDIATE")
        return ChatStore(connection)

    again = Owner(owner.path)
    again.worker = DatabaseWorker(
        replace(CHATS_KEPT, store=held_store), again.path, again.calls.put, again.problems.append
    )
    again.worker.start()
    again.worker.save(ChatMessage(CHAT.id, "assistant", "new", status="streaming"))
    again.run_until(lambda: bool(again.problems))
    other.close()
    again.run_until(lambda: again.problems[-1] == "")
    states = again.answer(lambda store: [(m.text, m.status) for m in store.messages(CHAT.id)])
    assert states == [("cut off", "interrupted"), ("new", "streaming")]
    again.worker.change(lambda store: store.restore(trashed.id))
    assert titles(again) == ["Chat"]
    assert again.worker.close(PATIENCE)


def patient(owner: Owner) -> sqlite3.Connection:
    """From now on it waits an hour for others, where it waits. Returns the thread's connection."""
    connections: list[sqlite3.Connection] = []

    def wait_long(store: ChatStore) -> None:
        connections.append(store._db)  # pyright: ignore[reportPrivateUsage]
        store._db.execute("PRAGMA busy_timeout = 3600000")  # pyright: ignore[reportPrivateUsage]

    owner.answer(wait_long)
    return connections[0]


def test_a_question_does_not_wait_for_who_holds_up_a_change(owner: Owner) -> None:
    with held(owner):
        owner.worker.change(lambda store: store.trash(CHAT.id))
        owner.run_until(lambda: bool(owner.problems))
        patient(owner)
        assert [titles(owner) for _ in range(4)] == [["Chat"]] * 4
    owner.run_until(lambda: owner.problems[-1] == "")
    assert titles(owner) == []


def test_the_last_try_waits_for_who_holds_the_database(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_worker, "RETRY_SECONDS", 3600)
    other = sqlite3.connect(owner.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    owner.worker.change(lambda store: store.trash(CHAT.id))
    owner.run_until(lambda: bool(owner.problems))
    tried = threading.Event()
    patient(owner).set_trace_callback(lambda statement: tried.set() if "BEGIN" in statement else None)

    def let_go() -> None:
        assert tried.wait(PATIENCE)
        other.execute("ROLLBACK")

    with ThreadPoolExecutor(1) as pool:
        letting_go = pool.submit(let_go)
        assert owner.worker.close(PATIENCE)
        letting_go.result()
    assert saved_chats(owner.path) == []


def test_who_waits_for_a_thread_that_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends in the middle of a try, as nobody foresaw, with all that it had taken up."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    owner, told = Owner(tmp_path / "chats.sqlite3"), list[str]()
    keeping = replace(CHATS_KEPT, cannot_save="{unforeseen}")
    owner.worker = DatabaseWorker(keeping, owner.path, owner.calls.put, owner.problems.append)
    owner.worker.start()
    owner.worker.save(CHAT)
    titles(owner)
    other = sqlite3.connect(owner.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun = threading.Event()
    owner.worker.ask(lambda store: begun.wait(PATIENCE), lambda answer: None)  # what follows comes at once
    owner.worker.change(lambda store: store.trash(CHAT.id), failed=lambda why: told.append(f"change: {why}"))
    owner.worker.ask(lambda store: store.chats(), lambda answer: None, lambda why: told.append("question"))
    begun.set()
    owner.run_until(lambda: len(told) == 2)
    assert told == ["change: its thread has ended; start MLXR again", "question"]
    assert owner.worker.close(PATIENCE)


def test_what_there_was_no_memory_for_is_tried_again(owner: Owner) -> None:
    wanted = [1 << 62, 1 << 62, 1]
    told: list[str] = []

    def change(store: ChatStore) -> None:
        store.rename(CHAT.id, "x" * len(bytes(wanted.pop(0))))

    owner.worker.change(change, lambda: told.append("done"), told.append)
    owner.worker.save(replace(CHAT, title="later"))
    owner.run_until(lambda: bool(told))
    assert told == ["done"]
    owner.run_until(lambda: owner.problems[-1] == "")
    assert "cannot be saved right now (out of memory)" in owner.problems[0]
    assert titles(owner) == ["later"]
