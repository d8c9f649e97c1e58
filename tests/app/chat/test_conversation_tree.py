"""A conversation as a tree: versions beside each other, branches, and the exact tokens of each."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.chat.tree import Versions
from engine import CacheReport, Cancel, Failed, Forget, History, Refusal, Share, TextChunk, WayOut
from tests.app.chat.conversation_stage import Stage, answered, finished, last_request, shown, told


@pytest.fixture
def stage(qtbot: QtBot) -> Stage:
    stage = Stage()
    stage.ready()
    return stage


def test_a_request_says_whose_it_is_and_what_was_computed(stage: Stage) -> None:
    first = answered(stage, "one", "two")
    assert stage.chat.chat
    assert (first.chat, first.lane, first.history) == (stage.chat.chat.id, "window", None)
    second = stage.ask("three")
    assert second.history == History((4, 5, 8, 9), 2, "/models/tiny")


def test_editing_adds_a_version_and_keeps_the_old_one(stage: Stage) -> None:
    answered(stage, "one", "two")
    answered(stage, "three", "four")
    old = stage.chat.messages[2].id
    assert stage.chat.edit(old, " three again ")
    assert told(last_request(stage)) == ["one", "two", "three again"]
    assert last_request(stage).history == History((4, 5, 8, 9), 2, "/models/tiny")
    stage.play(finished(last_request(stage), "five"))
    assert shown(stage) == ["one", "two", "three again", "five"]
    assert stage.chat.versions(stage.chat.messages[2].id) == Versions(2, 2)
    stage.chat.switch(stage.chat.messages[2].id, -1)
    assert shown(stage) == ["one", "two", "three", "four"]


def test_the_first_message_can_be_edited(stage: Stage) -> None:
    answered(stage, "one", "two")
    assert stage.chat.edit(stage.chat.messages[0].id, "uno")
    assert told(last_request(stage)) == ["uno"]
    assert last_request(stage).history is None
    stage.play(finished(last_request(stage), "due"))
    stage.chat.switch(stage.chat.messages[0].id, -1)
    assert shown(stage) == ["one", "two"]


def test_another_answer_stands_beside_the_first(stage: Stage) -> None:
    answered(stage, "one", "two")
    assert stage.chat.regenerate(stage.chat.messages[1].id)
    assert told(last_request(stage)) == ["one"]
    stage.play(finished(last_request(stage), "zwei"))
    assert shown(stage) == ["one", "zwei"]
    assert stage.chat.versions(stage.chat.messages[1].id) == Versions(2, 2)
    assert stage.chat.versions(stage.chat.messages[0].id) == Versions(1, 1)
    stage.chat.switch(stage.chat.messages[1].id, -1)
    assert shown(stage) == ["one", "two"]


def test_an_answer_in_the_middle_can_be_asked_for_anew(stage: Stage) -> None:
    answered(stage, "one", "two")
    answered(stage, "three", "four")
    stage.chat.regenerate(stage.chat.messages[1].id)
    stage.play(finished(last_request(stage), "zwei"))
    assert shown(stage) == ["one", "zwei"]
    stage.chat.switch(stage.chat.messages[1].id, -1)
    assert shown(stage) == ["one", "two", "three", "four"]


def test_the_version_on_show_is_remembered(stage: Stage) -> None:
    answered(stage, "one", "two")
    stage.chat.regenerate(stage.chat.messages[1].id)
    stage.play(finished(last_request(stage), "zwei"))
    answered(stage, "three", "four")
    stage.chat.switch(stage.chat.messages[1].id, -1)
    chat = stage.chat.chat
    assert chat
    stage.chat.new_chat()
    stage.chat.open(stage.store.chats.chats()[0])
    assert shown(stage) == ["one", "two"]
    stage.chat.switch(stage.chat.messages[1].id, 1)
    assert shown(stage) == ["one", "zwei", "three", "four"]


def test_the_version_last_on_show_is_remembered_on_disk_at_every_fork(stage: Stage) -> None:
    answered(stage, "one", "two")
    stage.chat.regenerate(stage.chat.messages[1].id)
    stage.play(finished(last_request(stage), "zwei"))
    stage.chat.switch(stage.chat.messages[1].id, -1)
    stage.chat.edit(stage.chat.messages[0].id, "uno")
    stage.play(finished(last_request(stage), "due"))
    stage.chat.new_chat()
    stage.chat.open(stage.store.chats.chats()[0])
    assert shown(stage) == ["uno", "due"]
    stage.chat.switch(stage.chat.messages[0].id, -1)
    assert shown(stage) == ["one", "two"]


def test_switching_does_not_move_the_chat_to_the_top(stage: Stage) -> None:
    answered(stage, "one", "two")
    stage.chat.regenerate(stage.chat.messages[1].id)
    stage.play(finished(last_request(stage), "zwei"))
    before = stage.store.chats.chats()[0].updated
    stage.chat.switch(stage.chat.messages[1].id, -1)
    assert stage.store.chats.chats()[0].updated == before


def test_a_chat_that_goes_on_after_the_clock_was_set_back_keeps_its_place(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(stage, "one", "two")
    before = stage.store.chats.chats()[0].updated
    monkeypatch.setattr("time.time", lambda: before - 86_400)
    answered(stage, "three", "four")
    assert stage.store.chats.chats()[0].updated == before
    monkeypatch.setattr("time.time", lambda: before + 60)
    answered(stage, "five", "six")
    assert stage.store.chats.chats()[0].updated == before + 60


def test_a_chat_that_a_clock_ahead_has_dated_makes_room_for_one_that_is_used(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    for title, then in (("ahead", now + 86_400), ("further ahead", now + 90_000), ("now", now)):
        monkeypatch.setattr("time.time", lambda then=then: then)
        stage.chat.new_chat()
        answered(stage, title, "yes")
    assert titles(stage) == ["now", "further ahead", "ahead"]
    stage.chat.open(stage.store.chats.chats()[-1])
    monkeypatch.setattr("time.time", lambda: now + 60)
    answered(stage, "again", "yes")
    assert titles(stage) == ["ahead", "now", "further ahead"]
    monkeypatch.setattr("time.time", lambda: now + 100_000)
    stage.chat.new_chat()
    answered(stage, "later", "yes")
    assert titles(stage)[0] == "later"
    assert stage.store.chats.chats()[0].updated == now + 100_000


def titles(stage: Stage) -> list[str]:
    """Of the chats in the list, which is that of the store."""
    listed = [hit.chat.title for hit in stage.chats.rows]
    assert [chat.title for chat in stage.store.chats.chats()] == listed
    return listed


def test_a_switch_that_leads_nowhere_is_silent(stage: Stage) -> None:
    answered(stage, "one", "two")
    heard: list[object] = []
    stage.chat.switched.connect(heard.append)
    stage.chat.switch(stage.chat.messages[1].id, 1)
    assert heard == []


def test_an_answer_goes_on_while_another_version_is_shown(stage: Stage) -> None:
    answered(stage, "one", "two")
    stage.chat.regenerate(stage.chat.messages[1].id)
    request = last_request(stage)
    stage.play(TextChunk(request.id, "zw", 1))
    stage.chat.switch(stage.chat.messages[1].id, -1)
    assert (shown(stage), stage.chat.state.phase) == (["one", "two"], "idle")
    stage.play(TextChunk(request.id, "ei", 2))
    assert shown(stage) == ["one", "two"]
    stage.chat.switch(stage.chat.messages[1].id, 1)
    assert (shown(stage), stage.chat.state.phase) == (["one", "zwei"], "streaming")
    stage.play(finished(request, "zwei"))
    assert stage.saved()[-1].text == "zwei"


def test_a_branch_is_a_chat_of_its_own_with_the_same_tokens(stage: Stage) -> None:
    answered(stage, "one", "two")
    answered(stage, "three", "four")
    old = stage.chat.chat
    assert old
    branched_at = stage.chat.messages[1].id
    stage.chat.branch(branched_at)
    new = stage.chat.chat
    assert new
    assert (shown(stage), new.title) == (["one", "two"], "Branch of one")
    assert stage.sent[-1] == Share(new.id, (4, 5, 8, 9), "/models/tiny")
    request = stage.ask("other")
    assert (request.chat, request.history) == (new.id, History((4, 5, 8, 9), 2, "/models/tiny"))
    assert new.id != old.id
    stage.play(finished(request, "way"))
    assert [message.text for message in stage.saved()] == ["one", "two", "other", "way"]
    stage.chat.branch(stage.chat.messages[-1].id)
    assert stage.chat.chat
    assert stage.chat.chat.title == "Branch of one"
    stage.chat.open(old)
    assert shown(stage) == ["one", "two", "three", "four"]


def test_nothing_is_edited_or_asked_anew_while_an_answer_is_on_its_way(stage: Stage) -> None:
    answered(stage, "one", "two")
    stage.ask("three")
    before = len(stage.sent)
    assert not stage.chat.edit(stage.chat.messages[0].id, "uno")
    assert not stage.chat.regenerate(stage.chat.messages[1].id)
    assert not stage.chat.edit(stage.chat.messages[0].id, "  ")
    assert stage.chat.draft("p", "more") is None
    assert len(stage.sent) == before


def test_a_draft_is_what_would_be_sent(stage: Stage) -> None:
    fresh = stage.chat.draft("p", " hello ")
    assert fresh
    assert (told(fresh), fresh.history, fresh.chat) == (["hello"], None, "")
    assert stage.chat.messages == ()
    answered(stage, "one", "two")
    draft = stage.chat.draft("p", "three")
    assert draft == replace(stage.ask("three"), id="p")
    stage.play(finished(last_request(stage), "four"))
    third = stage.chat.messages[2].id
    edit = stage.chat.draft("p", "drei", third)
    stage.chat.edit(third, "drei")
    assert edit == replace(last_request(stage), id="p")


def test_a_deleted_chat_is_forgotten_by_the_engine(stage: Stage) -> None:
    request = stage.ask("hello")
    assert stage.chat.chat
    chat_id = stage.chat.chat.id
    stage.chat.forget(chat_id)
    assert stage.sent[-2:] == [Cancel(request.id), Forget(chat_id)]


def test_a_refusal_names_its_ways_out(stage: Stage) -> None:
    request = stage.ask("hello")
    refusal = Refusal(600, 512, (WayOut("evict", 96, "pinned"),))
    stage.play(Failed(request.id, "no room", "KVMemoryFull", refusal=refusal))
    assert stage.saved()[-1].error == "This needs 600 pages, and KV memory has 512"
    assert stage.chat.ways_out(stage.chat.messages[-1].id) == [
        "Let go of the memory of “A pinned chat”, 96 pages"
    ]


def test_how_much_shorter_is_told_in_words_as_the_text_itself_has_them(stage: Stage) -> None:
    request = stage.ask("these are six words of text")
    refusal = Refusal(3, 2, (WayOut("shorten", 4),), prompt_tokens=12)
    stage.play(Failed(request.id, "no room", "Refused", refusal=refusal))
    said = "Shorten the message by 4 tokens, about 2 words"
    assert stage.chat.ways_out(stage.chat.messages[-1].id) == [said]


def test_a_miss_is_kept(stage: Stage) -> None:
    request = stage.ask("hello")
    stage.play(CacheReport(request.id, 600, 512, 0, 512, "edited"))
    assert (stage.chat.state.phase, stage.chat.state.prefill_total, stage.chat.state.cached) == (
        "prefilling",
        88,
        512,
    )
    stage.play(finished(request, "hi"))
    assert (stage.saved()[-1].missed_from, stage.saved()[-1].miss_reason) == (512, "edited")
