"""The conversation's view model: states from engine events only, saving, and more than one chat at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.chat.answer_notes import note_for
from app.store.records import Chat
from engine import Cancel, Failed, Finished, PrefillProgress, TextChunk, Timing
from tests.app.chat.conversation_stage import Stage, finished
from tests.fakes.instant_store import LateStore


@pytest.fixture
def stage(qtbot: QtBot) -> Stage:
    stage = Stage()
    stage.ready()
    return stage


def test_phases_come_from_the_engine(stage: Stage) -> None:
    request = stage.ask("hello")
    stage.play(PrefillProgress(request.id, 1, 2, 0), TextChunk(request.id, "Hi", 1), finished(request, "Hi"))
    assert stage.phases == ["waiting", "prefilling", "streaming", "idle"]
    assert [message.text for message in stage.chat.messages] == ["hello", "Hi"]


def test_stopping_lasts_until_the_engine_says_so(stage: Stage) -> None:
    request = stage.ask("hello")
    stage.play(TextChunk(request.id, "Hi", 1))
    stage.chat.stop()
    stage.chat.stop()
    assert [command for command in stage.sent if isinstance(command, Cancel)] == [Cancel(request.id)]
    stage.play(TextChunk(request.id, " there", 2))
    assert stage.chat.state.phase == "stopping"
    stage.play(finished(request, "Hi there", reason="cancelled"))
    assert stage.chat.state.phase == "idle"
    assert stage.saved()[-1].status == "stopped"


def test_what_cut_an_answer_short_is_kept_with_it(stage: Stage) -> None:
    request = stage.ask("hello")
    stage.play(replace(finished(request, "Hi", reason="length"), limit="memory"))
    assert "KV memory is full" in note_for(stage.saved()[-1])
    request = stage.ask("again")
    stage.play(replace(finished(request, "Hi", reason="stop"), limit="memory"))
    assert stage.saved()[-1].error == ""


def test_an_answer_that_nobody_stopped_says_what_it_ended_for(stage: Stage) -> None:
    request = stage.ask("hello")
    why = "A had to make room for B; open it again and answer anew"
    stage.play(TextChunk(request.id, "Hi", 1))
    stage.play(replace(finished(request, "Hi", reason="cancelled"), why=why))
    assert stage.saved()[-1].text == "Hi"
    assert note_for(stage.saved()[-1]).startswith(why)


def test_nothing_is_sent_while_an_answer_is_on_its_way_or_without_a_model(stage: Stage) -> None:
    stage.ask("hello")
    assert not stage.chat.send("more")
    assert not Stage().chat.send("hello")


def test_tokens_in_context_are_those_of_the_chat_on_show(stage: Stage) -> None:
    assert stage.chat.context_tokens == 0
    request = stage.ask("hello")
    stage.play(finished(request, "Hi", prompt=(1, 2, 3)))
    assert stage.chat.context_tokens == 5
    first = stage.chat.chat
    assert first
    stage.chat.new_chat()
    assert stage.chat.context_tokens == 0
    request = stage.ask("and here?")
    stage.play(PrefillProgress(request.id, 10, 40, 8), TextChunk(request.id, "Hi", 1))
    assert stage.chat.context_tokens == 41
    stage.ready("/models/another")
    assert stage.chat.context_tokens is None, "it is written in another tokenizer's"
    stage.ready()
    assert stage.chat.context_tokens == 41
    stage.chat.open(first)
    assert stage.chat.context_tokens == 5, "an answer runs, and it is another chat's"
    stage.models.open("/models/another")
    assert stage.chat.context_tokens is None, "its ids are another tokenizer's"


@pytest.fixture
def late(qtbot: QtBot) -> tuple[Stage, LateStore, Chat]:
    """A stage with a chat that was chosen, and that the store has not read yet."""
    store = LateStore()
    stage = Stage(store)
    stage.ready()
    stage.play(finished(stage.ask("hello"), "Hi"))
    chat = stage.chat.chat
    assert chat
    stage.chat.new_chat()
    stage.chat.open(chat)
    return stage, store, chat


def test_a_chat_that_is_renamed_before_it_was_read_keeps_its_new_title(
    late: tuple[Stage, LateStore, Chat],
) -> None:
    stage, store, chat = late
    store.change(lambda chats: chats.rename(chat.id, "Renamed"))
    stage.chat.retitle(chat.id, "Renamed")
    store.answer()
    stage.ask("and more")
    assert stage.chat.chat
    assert stage.chat.chat.title == "Renamed"
    assert [chat.title for chat in store.chats.chats()] == ["Renamed"]


def test_a_chat_that_is_deleted_before_it_was_read_does_not_come_on_show(
    late: tuple[Stage, LateStore, Chat],
) -> None:
    stage, store, chat = late
    store.change(lambda chats: chats.trash(chat.id))
    stage.chat.forget(chat.id)
    store.answer()
    assert stage.chat.chat is None, "what is written in it would go with the trash"


def test_of_two_chats_that_are_chosen_the_last_one_comes_on_show(
    late: tuple[Stage, LateStore, Chat],
) -> None:
    stage, store, first = late
    stage.play(finished(stage.ask("another"), "Hi"))
    second = stage.chat.chat
    assert second
    stage.chat.new_chat()
    for chat in (second, first, second):
        stage.chat.open(chat)
    shown: list[str | None] = []
    stage.chat.opened.connect(lambda _: shown.append(stage.chat.chat.id if stage.chat.chat else None))
    while store.late:
        store.answer()
    assert shown == [second.id]


def test_blank_messages_are_not_sent(stage: Stage) -> None:
    assert not stage.chat.send(" \n ")
    assert stage.chat.messages == ()


def test_a_message_can_be_sent_while_the_model_loads(qtbot: QtBot) -> None:
    stage = Stage()
    stage.models.open("/models/tiny")
    stage.ask("hello")
    assert stage.chat.state.phase == "waiting"


def test_the_whole_path_goes_to_the_engine(stage: Stage) -> None:
    first = stage.ask("one")
    stage.play(finished(first, "two"))
    second = stage.ask("three")
    assert second.messages is not None
    assert [(m.role, m.content) for m in second.messages] == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]


def test_exact_tokens_are_kept_turn_by_turn(stage: Stage) -> None:
    first = stage.ask("one")
    stage.play(finished(first, "two", prompt=(1, 2, 3)))
    second = stage.ask("three")
    stage.play(finished(second, "four", prompt=(1, 2, 3, 8, 9, 4, 5)))
    assert [message.tokens for message in stage.saved()] == [(1, 2, 3), (8, 9), (4, 5), (8, 9)]
    third = stage.ask("five")
    stage.play(finished(third, "six", prompt=(1, 2, 7)))
    assert (stage.saved()[-2].kept_tokens, stage.saved()[-2].tokens) == (2, (7,))


def test_an_answer_cancelled_before_its_turn_leaves_the_tokens_above_alone(stage: Stage) -> None:
    first = stage.ask("one")
    stage.play(finished(first, "two", prompt=(1, 2, 3)))
    second = stage.ask("three")
    stage.play(Finished(second.id, "cancelled", "", (), (), None, Timing(0.0, 0, 0, 0.0, 0.0)))
    assert [message.tokens for message in stage.saved()] == [(1, 2, 3), (8, 9), None, ()]
    assert stage.saved()[2].kept_tokens is None


def test_a_failure_is_one_line_and_keeps_the_partial_answer(stage: Stage) -> None:
    request = stage.ask("hello")
    stage.play(
        TextChunk(request.id, "Half", 1), Failed(request.id, "prompt too long; shorten it", "PromptTooLong")
    )
    answer = stage.saved()[-1]
    assert (answer.status, answer.text, answer.error) == ("failed", "Half", "prompt too long; shorten it")
    assert stage.chat.can_send


def test_an_answer_is_saved_while_it_grows(stage: Stage) -> None:
    request = stage.ask("hello")
    stage.play(TextChunk(request.id, "Half an ans", 3))
    stage.chat.save_now()
    assert (stage.saved()[-1].text, stage.saved()[-1].status) == ("Half an ans", "streaming")


def test_the_view_hears_of_a_change_once_a_frame(stage: Stage) -> None:
    request = stage.ask("hello")
    texts: list[str] = []
    stage.chat.changed.connect(lambda message: texts.append(message.text))
    for piece in ("a", "b", "c"):
        stage.chat.handle(TextChunk(request.id, piece, 1))
    stage.chat.flush()
    stage.chat.flush()
    assert texts == ["abc"]


def test_an_answer_goes_on_while_another_chat_is_shown(stage: Stage) -> None:
    request = stage.ask("first")
    first = stage.chat.chat
    assert first
    stage.play(TextChunk(request.id, "Go", 1))
    stage.chat.new_chat()
    assert stage.chat.messages == ()
    assert stage.chat.state.phase == "idle"
    stage.play(TextChunk(request.id, "ing on", 2))
    assert stage.chat.messages == ()
    stage.chat.open(first)
    assert (stage.chat.messages[-1].text, stage.chat.state.phase) == ("Going on", "streaming")
    stage.chat.new_chat()
    stage.play(finished(request, "Going on"))
    stage.chat.open(first)
    assert (stage.chat.messages[-1].text, stage.chat.state.phase) == ("Going on", "idle")


def test_it_tells_which_chats_an_answer_is_on_its_way_for(stage: Stage) -> None:
    heard: list[frozenset[str]] = []
    stage.chat.answering_changed.connect(heard.append)
    stage.ready()
    first = stage.ask("One?")
    stage.chat.new_chat()
    second = stage.ask("Two?")
    stage.play(TextChunk(first.id, "An", 1), finished(first, "An answer"))
    stage.play(finished(second, "Another"))
    assert heard == [{first.chat}, {first.chat, second.chat}, {second.chat}, frozenset()]


def test_two_chats_can_wait_at_once(stage: Stage) -> None:
    first = stage.ask("first")
    stage.chat.new_chat()
    second = stage.ask("second")
    stage.play(finished(first, "one"), TextChunk(second.id, "tw", 1))
    assert stage.chat.messages[-1].text == "tw"


def test_a_deleted_chat_is_cancelled_and_left(stage: Stage) -> None:
    request = stage.ask("hello")
    assert stage.chat.chat
    stage.chat.forget(stage.chat.chat.id)
    assert Cancel(request.id) in stage.sent
    assert stage.chat.messages == ()
    stage.play(finished(request, "", reason="cancelled"))
    assert stage.chat.can_send


def test_a_new_title_outlives_the_next_save(stage: Stage) -> None:
    request = stage.ask("hello")
    assert stage.chat.chat
    stage.chat.retitle(stage.chat.chat.id, "Renamed")
    stage.play(finished(request, "hi"))
    stage.ask("again")
    assert [chat.title for chat in stage.store.chats.chats()] == ["Renamed"]


def test_text_that_has_no_utf8_form_is_made_storable(stage: Stage) -> None:
    stage.ask("broken \ud83d emoji")
    assert stage.saved()[0].text == "broken ? emoji"


def test_events_of_others_are_passed_over(stage: Stage) -> None:
    stage.play(TextChunk("someone else", "x", 1), Failed("someone else", "x", "y"))
    assert stage.chat.messages == ()
