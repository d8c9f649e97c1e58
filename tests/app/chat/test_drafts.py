"""What is written and not sent belongs to its chat, and reaches the store whatever that does meanwhile."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.chat.drafts import DraftsViewModel
from app.store.records import Draft
from tests.app.chat.conversation_stage import Stage, answered
from tests.fakes.instant_store import InstantStore, LateStore


class Desk:
    """Drafts over a staged conversation, and what the composer was told to show."""

    def __init__(self, store: InstantStore | None = None) -> None:
        self.stage = Stage()
        self.stage.ready()
        self.store = store or self.stage.store
        self.drafts = DraftsViewModel(self.store, self.stage.chat)
        self.shown: list[str] = []
        self.drafts.shown.connect(self.shown.append)

    def begin(self, question: str) -> str:
        """Begin a chat, and return its id."""
        self.stage.chat.new_chat()
        answered(self.stage, question, "Yes.")
        assert self.stage.chat.chat
        return self.stage.chat.chat.id

    def open(self, chat_id: str) -> None:
        chat = self.stage.store.chats.find(chat_id)
        assert chat
        self.stage.chat.open(chat)


@pytest.fixture
def desk(qtbot: QtBot) -> Desk:
    desk = Desk()
    desk.drafts.load()
    return desk


@pytest.fixture
def late(qtbot: QtBot) -> Desk:
    """A desk whose store has earlier drafts, and has not been read."""
    desk = Desk(LateStore())
    desk.store.chats.save_draft(Draft("", "earlier"))
    desk.store.chats.save_draft(Draft("other", "elsewhere"))
    desk.drafts.load()
    return desk


def answer(desk: Desk) -> None:
    assert isinstance(desk.store, LateStore)
    desk.store.answer()


def test_each_chat_has_its_own_and_so_has_the_new_one(desk: Desk) -> None:
    first, second = desk.begin("first"), desk.begin("second")
    desk.drafts.write("in the second")
    desk.open(first)
    assert desk.shown[-1] == ""
    desk.drafts.write("in the first")
    desk.stage.chat.new_chat()
    desk.drafts.write("in none yet")
    desk.open(second)
    assert (desk.shown[-1], desk.drafts.text) == ("in the second", "in the second")
    desk.open(first)
    assert desk.shown[-1] == "in the first"
    desk.stage.chat.new_chat()
    assert desk.shown[-1] == "in none yet"
    assert desk.store.chats.drafts() == {first: "in the first", second: "in the second", "": "in none yet"}


def test_it_is_told_in_which_chats_there_are_words(late: Desk) -> None:
    told: list[frozenset[str]] = []
    late.drafts.changed.connect(told.append)
    chat = late.begin("first")
    for words in (" ", "a", "an", "", "\n"):
        late.drafts.write(words)
    assert told == [{chat}, frozenset()]
    late.drafts.write("again")
    answer(late)
    assert told[2:] == [{chat}, {chat, "", "other"}]
    late.drafts.clear()
    assert told[4:] == [{"", "other"}]


def test_what_is_shown_already_is_not_shown_again(desk: Desk) -> None:
    desk.drafts.write("half a sen")
    desk.stage.chat.new_chat()
    chat = desk.begin("first")
    desk.open(chat)
    assert desk.shown == []


def test_it_is_saved_once_a_moment_while_one_goes_on_writing(desk: Desk) -> None:
    desk.drafts.write("h")
    timer = desk.drafts._timer.timerId()
    desk.drafts.write("ha")
    assert desk.drafts._timer.timerId() == timer, "writing on must not put it off"
    assert desk.store.chats.drafts() == {}
    desk.drafts._timer.timeout.emit()
    assert desk.store.chats.drafts() == {"": "ha"}
    assert not desk.drafts._timer.isActive()
    desk.drafts.write("half \ud83d")
    assert desk.drafts._timer.isActive()
    desk.drafts.close()
    assert desk.store.chats.drafts() == {"": "half ?"}


def test_what_was_sent_is_gone_at_once(desk: Desk) -> None:
    desk.drafts.write("What is a page?")
    desk.drafts.save_now()
    chat = desk.begin(desk.drafts.text)
    desk.drafts.clear()
    assert desk.store.chats.drafts() == {}
    assert desk.shown[-1] == ""
    desk.drafts.write("And a")
    desk.drafts.save_now()
    assert desk.store.chats.drafts() == {chat: "And a"}


def test_what_is_written_stays_when_something_else_begins_the_chat(desk: Desk) -> None:
    desk.drafts.write("half a sentence")
    desk.drafts.save_now()
    assert desk.stage.chat.send("a suggestion")
    assert (desk.drafts.text, desk.shown) == ("half a sentence", [])
    desk.drafts.save_now()
    assert desk.stage.chat.chat
    assert desk.store.chats.drafts() == {desk.stage.chat.chat.id: "half a sentence"}


def test_a_branch_begins_with_nothing_written(desk: Desk) -> None:
    first = desk.begin("first")
    desk.drafts.write("for the first")
    desk.stage.chat.branch(desk.stage.chat.messages[-1].id)
    assert desk.shown == [""]
    assert desk.store.chats.drafts() == {first: "for the first"}


def test_what_is_typed_before_the_store_has_answered_goes_behind_what_it_has(late: Desk) -> None:
    late.drafts.write("typed")
    late.drafts.save_now()
    assert late.store.chats.drafts()[""] == "earlier", "nothing is written over what was not seen"
    answer(late)
    assert late.shown == ["earlier\ntyped"]
    assert late.store.chats.drafts() == {"": "earlier\ntyped", "other": "elsewhere"}


def test_what_the_store_has_is_shown_where_nothing_was_typed(late: Desk) -> None:
    late.drafts.write("t")
    late.drafts.write("")
    answer(late)
    assert late.shown == ["earlier"]
    assert late.store.chats.drafts() == {"": "earlier", "other": "elsewhere"}


def test_what_was_sent_before_the_store_has_answered_takes_nothing_with_it(late: Desk) -> None:
    late.drafts.write("sent")
    late.begin("sent")
    late.drafts.clear()
    answer(late)
    assert late.drafts.text == ""
    late.stage.chat.new_chat()
    assert late.shown[-1] == "earlier"
    assert late.store.chats.drafts() == {"": "earlier", "other": "elsewhere"}


def test_the_end_saves_what_was_typed_before_the_store_has_answered(late: Desk) -> None:
    late.drafts.write("typed")
    late.drafts.close()
    assert late.store.chats.drafts() == {"": "earlier\ntyped", "other": "elsewhere"}


def test_a_store_that_could_not_be_read_is_asked_again_while_one_writes(late: Desk) -> None:
    store = late.store
    assert isinstance(store, LateStore)
    late.drafts.write("t")
    late.drafts.save_now()
    assert len(store.late) == 1, "it has not answered yet"
    store.fail()
    assert late.drafts.text == "t"
    late.drafts.write("typed")
    late.drafts.save_now()
    assert store.chats.drafts()[""] == "earlier"
    store.answer()
    assert late.shown == ["earlier\ntyped"]
    assert store.chats.drafts()[""] == "earlier\ntyped"
