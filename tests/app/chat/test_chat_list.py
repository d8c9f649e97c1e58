"""The list of chats: order, search, rename, delete and undo."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.chat.chat_list import ChatListViewModel
from app.store.records import Chat, SearchHit
from tests.fakes.instant_store import InstantStore, LateStore, store_of


@pytest.fixture
def store() -> InstantStore:
    return store_of(("Oldest", 1.0), ("Middle", 2.0), ("Newest", 3.0))


@pytest.fixture
def chats(qtbot: QtBot, store: InstantStore) -> ChatListViewModel:
    chats = ChatListViewModel(store)
    chats.load()
    return chats


def titles(chats: ChatListViewModel) -> list[str]:
    return [row.chat.title for row in chats.rows]


def test_newest_first(chats: ChatListViewModel) -> None:
    assert titles(chats) == ["Newest", "Middle", "Oldest"]


def test_a_continued_chat_moves_to_the_top(chats: ChatListViewModel) -> None:
    chats.upsert(Chat("Oldest", id="Oldest", updated=9.0))
    assert titles(chats) == ["Oldest", "Newest", "Middle"]


def test_a_chat_begun_before_the_list_was_read_stays(qtbot: QtBot, store: InstantStore) -> None:
    chats = ChatListViewModel(store)
    chats.upsert(Chat("Just begun", updated=9.0))
    chats.load()
    assert titles(chats) == ["Just begun", "Newest", "Middle", "Oldest"]


def test_search_narrows_and_a_blank_one_shows_all(chats: ChatListViewModel) -> None:
    chats.search("middle")
    assert titles(chats) == ["Middle"]
    assert "llamas" in chats.rows[0].snippet
    chats.search("  ")
    assert titles(chats) == ["Newest", "Middle", "Oldest"]
    assert chats.query == ""


def test_of_what_is_typed_letter_by_letter_the_store_looks_for_the_last_alone(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LateStore()
    store.save(Chat("Middle", id="Middle"))
    chats, search, looked_for = ChatListViewModel(store), store.chats.search, list[str]()

    def look(query: str) -> list[SearchHit]:
        looked_for.append(query)
        return search(query)

    monkeypatch.setattr(store.chats, "search", look)
    for query in ("m", "mi", "mid", ""):
        chats.search(query)
    chats.search("middle")
    while store.late:
        store.answer()
    assert looked_for == ["middle"]
    assert titles(chats) == ["Middle"]


def test_renaming_is_stored_and_told(chats: ChatListViewModel, store: InstantStore) -> None:
    told: list[tuple[str, str]] = []
    chats.renamed.connect(lambda chat_id, title: told.append((chat_id, title)))
    chats.rename("Middle", "  In the\nmiddle ")
    assert titles(chats) == ["Newest", "In the middle", "Oldest"]
    assert [chat.title for chat in store.chats.chats()] == ["Newest", "In the middle", "Oldest"]
    assert told == [("Middle", "In the middle")]


@pytest.mark.parametrize("title", ["", "   ", "Middle"])
def test_a_blank_or_equal_title_changes_nothing(chats: ChatListViewModel, title: str) -> None:
    told: list[str] = []
    chats.renamed.connect(lambda chat_id, title: told.append(title))
    chats.rename("Middle", title)
    assert titles(chats) == ["Newest", "Middle", "Oldest"]
    assert told == []


def test_deleting_can_be_undone(chats: ChatListViewModel, store: InstantStore) -> None:
    deleted: list[Chat] = []
    chats.deleted.connect(deleted.append)
    chats.delete("Middle")
    assert titles(chats) == ["Newest", "Oldest"]
    assert len(store.chats.chats()) == 2
    chats.undo_delete(deleted[0])
    assert titles(chats) == ["Newest", "Middle", "Oldest"]
    assert len(store.chats.chats()) == 3


def test_deleting_while_searching_updates_what_is_found(chats: ChatListViewModel) -> None:
    chats.search("llamas")
    chats.delete("Newest")
    assert titles(chats) == ["Middle", "Oldest"]


def test_unknown_chats_are_left_alone(chats: ChatListViewModel) -> None:
    chats.delete("unknown")
    chats.rename("unknown", "x")
    assert titles(chats) == ["Newest", "Middle", "Oldest"]
