"""Several answers to one question: written at once, one is kept, nothing is overwritten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.chat.answer_notes import note_for
from app.chat.token_path import tokens_along
from app.chat.tree import Versions
from app.store.records import Status
from engine import (
    CacheReport,
    Cancel,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Keep,
    Sample,
    SampleEnded,
    TextChunk,
    Timing,
)
from tests.app.chat.conversation_stage import Stage, answered, shown

PROMPT = (1, 2, 3)


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.ready()
    return stage


def ask(stage: Stage, count: int = 3) -> Generate:
    assert stage.chat.send("Tell me", count)
    return stage.requests()[-1]


def end(request: Generate, *texts: str, reason: FinishReason = "stop") -> Finished:
    """All answers ended; the ids of each are its own."""
    first, *others = (
        Sample(reason, words, (10 * number, 10 * number + 1), None)
        for number, words in enumerate(texts, start=1)
    )
    timing = Timing(50.0, 2, 0, 1.0, 2.0)
    prompt = (request.history.tokens if request.history else ()) + PROMPT
    return Finished(
        request.id, first.reason, first.text, first.tokens, prompt, None, timing, others=tuple(others)
    )


def together(stage: Stage) -> list[str]:
    return [message.text for message in stage.chat.together(stage.chat.messages[-1].id)]


def ids(stage: Stage) -> list[str]:
    return [message.id for message in stage.chat.together(stage.chat.messages[-1].id)]


def test_one_request_writes_all_of_them(stage: Stage) -> None:
    request = ask(stage)
    assert (request.n, request.sampling.temperature > 0) == (3, True)
    stage.play(
        TextChunk(request.id, "Fo", 1, 1), TextChunk(request.id, "B", 1, 2), TextChunk(request.id, "A", 1)
    )
    stage.play(TextChunk(request.id, "ur", 2, 1), SampleEnded(request.id, 2, "stop"))
    assert together(stage) == ["A", "Four", "B"]
    statuses = [message.status for message in stage.chat.together(stage.chat.messages[-1].id)]
    assert statuses == ["streaming", "streaming", "complete"]
    assert stage.chat.state.phase == "streaming"
    stage.play(end(request, "A.", "Four.", "B."))
    assert together(stage) == ["A.", "Four.", "B."]
    assert stage.chat.state.phase == "choosing"


def test_tokens_in_context_are_known_while_one_has_ended_and_others_go_on(stage: Stage) -> None:
    request = ask(stage, 2)
    stage.play(CacheReport(request.id, 3, 0, 0))
    stage.play(TextChunk(request.id, "A", 2), TextChunk(request.id, "B", 1, 1))
    stage.play(SampleEnded(request.id, 0, "stop"))
    assert stage.chat.context_tokens == 3 + 2


def test_nothing_is_sent_until_one_is_kept(stage: Stage) -> None:
    stage.play(end(ask(stage), "A", "B", "C"))
    assert not stage.chat.can_send
    assert not stage.chat.send("Go on")
    assert not stage.chat.regenerate(stage.chat.messages[-1].id)
    stage.chat.keep(ids(stage)[0])
    assert stage.chat.can_send


def test_the_kept_one_goes_on_and_the_others_stay_as_versions(stage: Stage) -> None:
    stage.play(end(ask(stage), "A", "B", "C"))
    kept = ids(stage)[1]
    stage.chat.keep(kept)
    assert shown(stage) == ["Tell me", "B"]
    assert (stage.chat.versions(kept).place, stage.chat.versions(kept).count) == (2, 3)
    keep = stage.sent[-1]
    assert stage.chat.chat
    others = ((*PROMPT, 10, 11), (*PROMPT, 30, 31))
    assert keep == Keep(stage.chat.chat.id, (*PROMPT, 20, 21), others, "/models/tiny")
    answered(stage, "Go on", "Gladly")
    assert shown(stage) == ["Tell me", "B", "Go on", "Gladly"]
    request = stage.requests()[-1]
    assert request.history
    assert request.history.tokens == (*PROMPT, 20, 21)
    assert [message.text for message in stage.saved()] == shown(stage)


def test_every_answer_has_its_tokens_behind_the_question(stage: Stage) -> None:
    stage.play(end(ask(stage, 2), "A", "B"))
    stage.chat.keep(ids(stage)[1])
    assert tokens_along(stage.chat.messages) == (*PROMPT, 20, 21)
    assert stage.chat.context_tokens == len(PROMPT) + 2
    stage.chat.switch(stage.chat.messages[-1].id, -1)
    assert tokens_along(stage.chat.messages) == (*PROMPT, 10, 11)


def test_more_answers_stand_beside_the_one_that_was_there(stage: Stage) -> None:
    answered(stage, "Tell me", "First")
    assert stage.chat.regenerate(stage.chat.messages[-1].id, 2)
    request = stage.requests()[-1]
    assert request.n == 2
    prompt = tokens_along(stage.chat.messages[:1])
    stage.play(
        Finished(
            request.id,
            "stop",
            "Second",
            (7,),
            prompt,
            None,
            Timing(1, 1, 1, 1, 1),
            others=(Sample("stop", "Third", (8,), None),),
        )
    )
    assert together(stage) == ["Second", "Third"]
    stage.chat.keep(ids(stage)[1])
    assert isinstance(stage.sent[-1], Keep)
    assert stage.sent[-1].others == ((*prompt, 7),)  # what was there before is not asked about
    assert stage.chat.versions(stage.chat.messages[-1].id).count == 3


def test_each_says_what_cut_it(stage: Stage) -> None:
    request = ask(stage, 2)
    stage.play(TextChunk(request.id, "Second", 1, 1), SampleEnded(request.id, 1, "length", "memory"))
    assert "KV memory is full" in note_for(stage.chat.together(stage.chat.messages[-1].id)[1])
    ended = end(request, "First", "Second", reason="length")
    stage.play(replace(ended, limit="max_tokens", others=(replace(ended.others[0], limit="memory"),)))
    answers = stage.chat.together(stage.chat.messages[-1].id)
    notes = {message.text: note_for(message) for message in answers}
    assert "KV memory is full" in notes["Second"]
    assert "KV memory" not in notes["First"]


def test_keeping_one_that_is_being_written_ends_the_others(stage: Stage) -> None:
    request = ask(stage)
    for sample in range(3):
        stage.play(TextChunk(request.id, "x", 1, sample))
    stage.play(SampleEnded(request.id, 0, "stop"))
    stage.chat.keep(ids(stage)[1])
    assert [command for command in stage.sent if isinstance(command, Cancel)] == [Cancel(request.id, 2)]
    assert shown(stage) == ["Tell me", "x"]
    assert stage.chat.state.phase == "streaming"
    stage.play(TextChunk(request.id, "y", 2, 1))
    assert shown(stage) == ["Tell me", "xy"]
    assert not any(isinstance(command, Keep) for command in stage.sent)
    stage.play(end(request, "x", "xyz", "x"))
    assert isinstance(stage.sent[-1], Keep)
    assert stage.sent[-1].kept == (*PROMPT, 20, 21)
    assert stage.chat.state.phase == "idle"
    assert stage.chat.versions(stage.chat.messages[-1].id).count == 3


def test_stop_ends_all_of_them(stage: Stage) -> None:
    request = ask(stage)
    stage.play(
        TextChunk(request.id, "x", 1, 0), TextChunk(request.id, "y", 1, 1), TextChunk(request.id, "z", 1, 2)
    )
    stage.chat.stop()
    stage.chat.stop()
    assert [command for command in stage.sent if isinstance(command, Cancel)] == [Cancel(request.id)]
    assert stage.chat.state.phase == "stopping"
    stage.play(end(request, "x", "y", "z", reason="cancelled"))
    assert together(stage) == ["x", "y", "z"]
    assert stage.chat.state.phase == "choosing"


@pytest.mark.parametrize("status", ["stopped", "failed", "complete"])
def test_of_answers_without_a_word_one_is_left(stage: Stage, status: Status) -> None:
    request = ask(stage)
    if status == "failed":
        stage.play(Failed(request.id, "it broke", "ModelError"))
    else:
        stage.play(end(request, "", "", "", reason="cancelled" if status == "stopped" else "stop"))
    (answer,) = stage.chat.together(stage.chat.messages[-1].id)
    assert answer.status == status
    assert stage.chat.versions(answer.id).count == 1
    assert stage.chat.state.phase == "idle"
    assert [message.id for message in stage.saved()] == [message.id for message in stage.chat.messages]
    assert stage.chat.regenerate(answer.id)


def test_they_keep_their_order_in_the_store_whoever_speaks_first(stage: Stage) -> None:
    request = ask(stage)
    assert stage.chat.chat
    chat_id = stage.chat.chat.id
    assert len(stage.store.chats.messages(chat_id)) == 2
    order = ids(stage)
    stage.play(TextChunk(request.id, "Words", 1, 2))
    stage.chat.save_now()
    assert [message.id for message in stage.store.chats.messages(chat_id)][1:] == order
    stage.play(Failed(request.id, "it broke", "ModelError"))
    assert together(stage) == ["", "", "Words"]
    stage.chat.keep(order[2])
    assert shown(stage) == ["Tell me", "Words"]
    assert stage.chat.can_send


def test_another_version_is_shown_meanwhile_and_the_choice_comes_back(stage: Stage) -> None:
    answered(stage, "Tell me", "First")
    question = stage.chat.messages[0].id
    assert stage.chat.edit(question, "Tell me all")
    stage.play(end(stage.requests()[-1], "All"))
    stage.chat.switch(stage.chat.messages[0].id, -1)
    assert stage.chat.regenerate(stage.chat.messages[-1].id, 2)
    stage.chat.switch(question, 1)
    assert shown(stage) == ["Tell me all", "All"]
    assert stage.chat.state.phase == "idle"
    stage.play(end(stage.requests()[-1], "A", "B"))
    assert stage.chat.can_send
    stage.chat.switch(stage.chat.messages[0].id, -1)
    assert together(stage) == ["A", "B"]
    assert stage.chat.state.phase == "choosing"


def test_opened_anew_they_are_versions_like_others(stage: Stage) -> None:
    stage.play(end(ask(stage), "A", "B", "C"))
    chat = stage.chat.chat
    assert chat
    stage.chat.new_chat()
    stage.chat.open(chat)
    assert shown(stage) == ["Tell me", "A"]
    assert stage.chat.versions(stage.chat.messages[-1].id) == Versions(1, 3)
    assert stage.chat.can_send
