"""Saving, finding and ordering conversations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.store.chats import RECENT_MODELS, ChatStore
from app.store.records import TITLE_LENGTH, Chat, ChatMessage, Draft, Edit, title_from
from app.store.schema import migrate


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    migrate(connection)
    yield connection
    connection.close()


@pytest.fixture
def store(connection: sqlite3.Connection) -> ChatStore:
    return ChatStore(connection)


def talk(store: ChatStore, chat: Chat, *texts: str) -> list[ChatMessage]:
    """Save a conversation in which the two sides take turns; the chat's leaf is its last message."""
    path: list[ChatMessage] = []
    for place, text in enumerate(texts):
        parent = path[-1].id if path else None
        path.append(ChatMessage(chat.id, "assistant" if place % 2 else "user", text, parent))
    store.save_chat(replace(chat, leaf_id=path[-1].id))
    for message in path:
        store.save_message(message)
    return path


def test_a_chat_keeps_what_it_began_with(store: ChatStore) -> None:
    chat = Chat("Pages", system="Answer in French.")
    store.save_chat(chat)
    store.save_chat(replace(chat, title="Renamed", system="Answer in Greek."))
    assert store.chats() == [replace(chat, title="Renamed")]


def test_a_conversation_comes_back_exactly(store: ChatStore) -> None:
    chat = Chat("Pages")
    question = ChatMessage(chat.id, "user", "what?\n\tπ 🦙", tokens=(1, 2, 300_000), kept_tokens=0)
    answer = ChatMessage(
        chat.id,
        "assistant",
        "",
        question.id,
        tokens=(),
        status="failed",
        error="too long",
        model="/m",
        generated_tokens=3,
        ttft_ms=1.5,
        decode_tps=2.5,
    )
    store.save_chat(replace(chat, leaf_id=answer.id))
    store.save_message(question)
    store.save_message(answer)
    assert store.messages(chat.id) == [question, answer]


def test_every_branch_comes_back_in_the_order_it_was_made(store: ChatStore) -> None:
    chat = Chat("Branches")
    question, first = talk(store, chat, "question", "first answer")
    talk(store, Chat("Another"), "not this")
    second = ChatMessage(chat.id, "assistant", "second answer", question.id)
    edited = ChatMessage(chat.id, "user", "another question")
    store.save_message(second)
    store.save_message(edited)
    store.save_message(replace(question, shown_child=first.id))
    assert store.messages(chat.id) == [replace(question, shown_child=first.id), first, second, edited]


def test_why_an_answer_was_read_again_is_kept(store: ChatStore) -> None:
    chat = Chat("Chat")
    _, answer = talk(store, chat, "question", "answer")
    missed = replace(answer, missed_from=512, miss_reason="evicted")
    store.save_message(missed)
    assert store.messages(chat.id)[-1] == missed


def test_saving_again_updates(store: ChatStore) -> None:
    chat = Chat("Growing")
    _, answer = talk(store, chat, "question", "half")
    store.save_message(replace(answer, text="half and whole", tokens=(5,)))
    assert [message.text for message in store.messages(chat.id)] == ["question", "half and whole"]


def test_chats_are_listed_newest_first(store: ChatStore) -> None:
    for title, updated in (("old", 1.0), ("new", 3.0), ("middle", 2.0)):
        store.save_chat(Chat(title, updated=updated))
    assert [chat.title for chat in store.chats()] == ["new", "middle", "old"]


def test_renaming_keeps_the_place(store: ChatStore) -> None:
    first, second = Chat("first", updated=1.0), Chat("second", updated=2.0)
    store.save_chat(first)
    store.save_chat(second)
    store.rename(first.id, "renamed")
    assert [chat.title for chat in store.chats()] == ["second", "renamed"]


def test_a_pin_stays_while_the_chat_goes_on(store: ChatStore) -> None:
    chat, other = Chat("Chat"), Chat("Another")
    store.save_chat(chat)
    store.save_chat(other)
    assert store.pinned() == []
    store.pin(chat.id, True)
    store.save_chat(replace(chat, title="Later", updated=9.0))
    assert store.pinned() == [chat.id]
    store.pin(chat.id, False)
    assert store.pinned() == []


def test_a_pin_is_out_of_sight_with_its_chat_in_the_trash(store: ChatStore) -> None:
    chat = Chat("Chat")
    store.save_chat(chat)
    store.pin(chat.id, True)
    store.trash(chat.id)
    assert store.pinned() == []
    store.restore(chat.id)
    assert store.pinned() == [chat.id]


def test_a_draft_is_kept_until_it_is_blank_or_its_chat_is_purged(store: ChatStore) -> None:
    chat, other = Chat("Pages"), Chat("Other")
    for each in (chat, other):
        store.save_chat(each)
        store.save_draft(Draft(each.id, "half a"))
    store.save_draft(Draft("", "of no chat yet\n 🦙"))
    store.save_draft(Draft(chat.id, "half a sentence"))
    store.save_chat(replace(chat, title="Renamed"))
    store.trash(chat.id)
    assert store.drafts() == {"": "of no chat yet\n 🦙", chat.id: "half a sentence", other.id: "half a"}
    store.save_draft(Draft(other.id, ""))
    store.purge_trash()
    assert store.drafts() == {"": "of no chat yet\n 🦙"}


def test_new_words_of_a_message_are_kept_until_they_are_blank_or_it_is_gone(store: ChatStore) -> None:
    chat = Chat("Pages")
    store.save_chat(chat)
    one, two, three = (ChatMessage(chat.id, "user", f"question {number}") for number in range(3))
    for message in (one, two, three):
        store.save_message(message)
        store.save_edit(Edit(message.id, "changed"))
    store.save_edit(Edit(one.id, "changed\n 🦙"))
    store.save_message(replace(one, text="as it is now"))
    store.save_edit(Edit(two.id, ""))
    store.save_edit(Edit("of nobody", "words"))
    assert list(store.edits().items()) == [(three.id, "changed"), (one.id, "changed\n 🦙")]
    store.trash(chat.id)
    assert len(store.edits()) == 2
    store.purge_trash()
    assert store.edits() == {}


def test_trash_can_be_undone_until_it_is_purged(store: ChatStore, connection: sqlite3.Connection) -> None:
    chat = Chat("Chat")
    talk(store, chat, "llamas", "alpacas")
    store.trash(chat.id)
    assert store.chats() == []
    assert store.search("llamas") == []
    store.restore(chat.id)
    assert [found.id for found in store.chats()] == [chat.id]
    store.trash(chat.id)
    store.purge_trash()
    store.restore(chat.id)
    assert store.chats() == []
    assert connection.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM message_search").fetchone() == (0,)


def test_answers_cut_off_by_a_crash_are_marked_and_found(store: ChatStore) -> None:
    chat = Chat("Chat")
    question = talk(store, chat, "question")[0]
    answer = ChatMessage(chat.id, "assistant", "unfinished symphony", question.id, status="streaming")
    store.save_chat(replace(chat, leaf_id=answer.id))
    store.save_message(answer)
    assert store.search("symphony") == []
    store.close_interrupted()
    assert store.messages(chat.id)[-1].status == "interrupted"
    assert [hit.chat.id for hit in store.search("symphony")] == [chat.id]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("page", True),
        ("PAGE", True),
        ("age hol", True),
        ("tokens holds", True),
        ("Größe", True),
        ("größ", True),
        ("头羊驼", True),
        ("羊", True),
        ("of", True),
        ("100%", True),
        ("0%", True),
        ("0_", False),
        ('"quoted"', True),
        ("NEAR(", False),
        ("page absent", False),
        ("title words", True),
        ("", False),
        ("   ", False),
    ],
)
def test_search_finds_parts_of_words_in_any_script(store: ChatStore, query: str, found: bool) -> None:
    chat = Chat("Some title words")
    talk(store, chat, "a page holds 16 tokens of text", 'Die Größe ist 100% "quoted", 一头羊驼')
    talk(store, Chat("Another"), "nothing here", "nor there")
    assert [hit.chat.id for hit in store.search(query)] == ([chat.id] if found else [])


def test_search_follows_edits_and_shows_the_place(store: ChatStore) -> None:
    chat = Chat("Chat")
    _, answer = talk(store, chat, "question", "a zebra")
    store.save_message(replace(answer, text="a " + "long " * 40 + "giraffe in the savanna"))
    assert store.search("zebra") == []
    assert "giraffe" in store.search("giraffe")[0].snippet


def test_recent_models_are_bounded_and_newest_first(
    store: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(RECENT_MODELS + 3):
        monkeypatch.setattr("time.time", lambda number=number: float(number))
        store.remember_model(f"/m{number}")
    monkeypatch.setattr("time.time", lambda: 100.0)
    store.remember_model("/m5")
    assert store.recent_models()[:2] == ["/m5", f"/m{RECENT_MODELS + 2}"]
    assert len(store.recent_models()) == RECENT_MODELS


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("  two\n lines ", "two lines"),
        ("# How it came to be\n\nWhat stands", "How it came to be What stands"),
        ("\n > ## Quoted", "Quoted"),
        ("#hashtag is a word", "#hashtag is a word"),
        ("#", "#"),
        ("word " * 40, ("word " * 12).strip() + "…"),
        ("x" * 100, "x" * (TITLE_LENGTH - 1) + "…"),
    ],
)
def test_title_is_the_start_of_the_first_message(text: str, title: str) -> None:
    assert title_from(text) == title
    assert len(title_from(text)) <= TITLE_LENGTH + 1
