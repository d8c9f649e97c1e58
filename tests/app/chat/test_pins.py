"""Pinned chats: the wish is stored, and every engine that loads a model is told."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app import text
from app.chat.pins import PinsViewModel, pin_words
from app.store.records import Chat
from engine import ChatMemory, Command, ModelReady, ModelUnloaded, Pin
from tests.fakes.instant_store import InstantStore
from tests.fakes.scripted_engine import model_info

READY = ModelReady("load", model_info("/models/tiny"))


@pytest.fixture
def store() -> InstantStore:
    store = InstantStore()
    for name in ("a", "b", "c"):
        store.save(Chat(name, id=name))
    store.chats.pin("b", True)
    return store


@pytest.fixture
def submitted() -> list[Command]:
    return []


@pytest.fixture
def pins(qtbot: QtBot, store: InstantStore, submitted: list[Command]) -> PinsViewModel:
    pins = PinsViewModel(submitted.append, store)
    pins.load()
    submitted.clear()
    return pins


def test_pins_of_the_last_run_are_known_and_told(
    qtbot: QtBot, store: InstantStore, submitted: list[Command]
) -> None:
    pins = PinsViewModel(submitted.append, store)
    changes: list[frozenset[str]] = []
    pins.changed.connect(changes.append)
    pins.load()
    assert pins.pinned == {"b"}
    assert changes == [frozenset({"b"})]
    assert submitted == [Pin("b", True)]


def test_pinning_is_stored_told_and_shown(
    pins: PinsViewModel, store: InstantStore, submitted: list[Command]
) -> None:
    changes: list[frozenset[str]] = []
    pins.changed.connect(changes.append)
    pins.pin("a", True)
    pins.pin("b", False)
    assert store.chats.pinned() == ["a"]
    assert submitted == [Pin("a", True), Pin("b", False)]
    assert changes == [frozenset({"a", "b"}), frozenset({"a"})]


def test_a_wish_that_holds_already_changes_nothing(pins: PinsViewModel, submitted: list[Command]) -> None:
    pins.pin("b", True)
    pins.pin("a", False)
    assert pins.pinned == {"b"}
    assert submitted == []


def test_every_model_that_is_loaded_is_told(pins: PinsViewModel, submitted: list[Command]) -> None:
    pins.pin("a", True)
    submitted.clear()
    for _ in range(2):
        pins.handle(ModelUnloaded("/models/tiny"))
        pins.handle(READY)
    assert submitted == [Pin("a", True), Pin("b", True)] * 2


def test_a_deleted_chat_is_not_told_of_again(
    pins: PinsViewModel, store: InstantStore, submitted: list[Command]
) -> None:
    store.chats.trash("b")
    pins.forget("b")
    pins.handle(READY)
    assert pins.pinned == frozenset()
    assert submitted == []  # Forget, which the conversation sends, unpins


def test_a_chat_that_was_brought_back_is_pinned_as_before(
    pins: PinsViewModel, submitted: list[Command]
) -> None:
    pins.forget("b")
    pins.forget("a")
    pins.restore("b")
    pins.restore("a")
    pins.restore("b")
    assert pins.pinned == {"b"}
    assert submitted == [Pin("b", True)]


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (None, text.PINNED_COLD),
        (ChatMemory(0, 5, 0), text.PINNED_COLD),
        (ChatMemory(5, 0, 0), text.PINNED),
    ],
)
def test_words_say_what_holds_now(memory: ChatMemory | None, words: str) -> None:
    assert pin_words(memory) == words
