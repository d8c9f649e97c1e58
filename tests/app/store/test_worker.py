"""The store's thread: order, failure and recovery, and what closing guarantees."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from app.store.chats import ChatStore
from app.store.database import open_database
from app.store.database_worker import DatabaseWorker
from app.store.records import Chat, ChatMessage
from app.store.worker import Kept, StoreWorker

PATIENCE = 60.0
NO_NAME = "chats\0.sqlite3"
"""What no system takes as a file's name: the thread ends before it begins."""


class Owner:
    """The thread that asks: runs what the worker posts when it waits for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.problems: list[str] = []
        self.worker: DatabaseWorker[ChatStore, Kept] = StoreWorker(path, self.calls.put, self.problems.append)

    def run_until(self, done: Callable[[], bool]) -> None:
        """Run posted calls until `done`."""
        while not done():
            self.calls.get(timeout=PATIENCE)()

    def answer(self, question: Callable[[ChatStore], object]) -> object:
        """Ask and wait."""
        answers: list[object] = []
        self.worker.ask(question, answers.append)
        self.run_until(lambda: bool(answers))
        return answers[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.sqlite3"


@pytest.fixture
def owner(path: Path) -> Iterator[Owner]:
    owner = Owner(path)
    owner.worker.start()
    yield owner
    assert owner.worker.close(PATIENCE)


def saved_chats(path: Path) -> list[Chat]:
    connection = open_database(path).connection
    chats = ChatStore(connection).chats()
    connection.close()
    return chats


def test_a_question_sees_what_was_saved_before_it(owner: Owner) -> None:
    chat = Chat("Chat")
    message = ChatMessage(chat.id, "user", "one")
    owner.worker.save(replace(chat, leaf_id=message.id))
    owner.worker.save(message)
    owner.worker.save(replace(message, text="two"))
    assert owner.answer(lambda store: [m.text for m in store.messages(chat.id)]) == ["two"]
    owner.worker.change(lambda store: store.rename(chat.id, "Renamed"))
    assert owner.answer(lambda store: [c.title for c in store.chats()]) == ["Renamed"]


def test_closing_saves_everything(path: Path) -> None:
    owner = Owner(path)
    owner.worker.start()
    chats = [Chat(f"Chat {number}") for number in range(50)]
    for chat in chats:
        owner.worker.save(chat)
    assert owner.worker.close(PATIENCE)
    assert {chat.id for chat in saved_chats(path)} == {chat.id for chat in chats}


def test_a_full_disk_is_told_and_what_waits_is_saved_when_there_is_room(owner: Owner, path: Path) -> None:
    connections: list[sqlite3.Connection] = []

    def fill(store: ChatStore) -> None:
        connections.append(store._db)  # the limit stands for a full disk, and is set where SQLite sees it
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}").fetchall()

    owner.worker.change(fill)
    big = Chat("x" * 100_000)
    owner.worker.save(big)
    owner.run_until(lambda: bool(owner.problems))
    assert "full" in owner.problems[0]
    assert "memory" in owner.problems[0]
    owner.answer(lambda store: store._db.execute("PRAGMA max_page_count = 1000000").fetchall())
    later = Chat("later")
    owner.worker.save(later)
    owner.run_until(lambda: owner.problems[-1] == "")
    titles = owner.answer(lambda store: {chat.title for chat in store.chats()})
    assert titles == {big.title, "later"}


def test_an_unwritable_home_is_told_and_the_session_works(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    owner = Owner(tmp_path / "file" / "chats.sqlite3")
    owner.worker.start()
    owner.worker.save(Chat("Chat"))
    assert owner.answer(lambda store: [chat.title for chat in store.chats()]) == ["Chat"]
    assert len(owner.problems) == 1
    assert owner.worker.close(PATIENCE)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (lambda store: store._db.execute("SELECT nonsense").fetchall(), "no such column: nonsense"),
        (lambda store: [][0], "list index out of range"),
    ],
)
def test_who_asks_is_told_why_there_is_no_answer(
    owner: Owner, question: Callable[[ChatStore], object], reason: str
) -> None:
    told: list[object] = []
    owner.worker.ask(question, lambda answer: told.append(["answered", answer]), told.append)
    owner.run_until(lambda: bool(told))
    assert told == [f"Chats cannot be read right now ({reason})."]
    assert owner.problems == []
    owner.worker.ask(question, told.append)
    owner.run_until(lambda: bool(owner.problems))
    assert owner.problems == told
    assert owner.answer(lambda store: store.chats()) == []


def test_a_question_that_writes_changes_nothing(owner: Owner) -> None:
    owner.answer(lambda store: store.save_chat(Chat("Chat")))
    assert owner.answer(lambda store: store.chats()) == []


@pytest.mark.parametrize("is_early", [True, False])
def test_a_question_to_a_thread_that_has_ended_is_told(path: Path, is_early: bool) -> None:
    owner, told = Owner(path.with_name(NO_NAME)), list[str]()
    if is_early:
        owner.worker.ask(lambda store: store.chats(), lambda answer: None, told.append)
    owner.worker.start()
    owner.run_until(lambda: bool(owner.problems))
    if not is_early:
        assert owner.worker.close(PATIENCE)
        owner.worker.ask(lambda store: store.chats(), lambda answer: None, told.append)
    owner.run_until(lambda: bool(told))
    assert told == ["Chats cannot be read right now (its thread has ended; start MLXR again)."]


def test_an_unforeseen_error_is_told(path: Path) -> None:
    owner = Owner(path.with_name(NO_NAME))
    owner.worker.start()
    owner.run_until(lambda: bool(owner.problems))
    assert "no longer be saved" in owner.problems[0]
    assert owner.worker.close(PATIENCE)


@pytest.mark.parametrize("is_change", [True, False])
def test_what_cannot_be_written_is_left_out_alone_and_told(
    owner: Owner, caplog: pytest.LogCaptureFixture, is_change: bool
) -> None:
    before, broken, after = Chat("before"), Chat("half of a pair: \ud83d"), Chat("after")
    owner.worker.save(before)
    if is_change:
        owner.worker.change(lambda store: store.rename(before.id, broken.title))
    else:
        owner.worker.save(broken)
        owner.worker.save(ChatMessage(broken.id, "user", "of a chat that there is not"))
    owner.worker.save(after)
    assert owner.answer(lambda store: {chat.title for chat in store.chats()}) == {"before", "after"}
    assert any("One change to the chats cannot be saved ('utf-8' codec" in line for line in owner.problems)
    assert "Traceback" in caplog.text
    told = len(owner.problems)
    owner.worker.save(replace(after, title="later"))
    assert owner.answer(lambda store: {chat.title for chat in store.chats()}) == {"before", "later"}
    assert "" not in owner.problems[told:], "it stays true"


def test_who_changes_is_told_why_it_never_will_be(owner: Owner) -> None:
    told: list[str] = []
    owner.worker.change(lambda store: [][0], lambda: told.append("done"), told.append)
    owner.run_until(lambda: bool(told))
    assert told == ["list index out of range"]


def test_a_change_for_a_thread_that_has_ended_is_told(path: Path) -> None:
    owner, told = Owner(path.with_name(NO_NAME)), list[str]()
    owner.worker.start()
    assert owner.worker.close(PATIENCE)
    owner.worker.change(lambda store: None, failed=told.append)
    owner.run_until(lambda: bool(told))
    assert told == ["its thread has ended; start MLXR again"]
