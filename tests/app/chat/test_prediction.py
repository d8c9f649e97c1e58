"""A prediction is asked for when typing pauses, and shown while it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.chat import prediction
from app.chat.prediction import PredictionViewModel
from app.chat.refusal_words import failure_words
from engine import (
    ChatMemory,
    ChatsCached,
    Failed,
    Generate,
    ModelUnloaded,
    Predict,
    Predicted,
    Refusal,
    TextChunk,
)
from tests.app.chat.conversation_stage import Stage, answered, finished, last_request


class Oracle:
    """A prediction over a staged conversation."""

    def __init__(self, qtbot: QtBot) -> None:
        self.qtbot = qtbot
        self.stage = Stage()
        self.stage.ready()
        self.prediction = PredictionViewModel(self.stage.sent.append, self.stage.chat, self.stage.models)
        self.said: list[str] = []
        self.prediction.changed.connect(lambda: self.said.append(self.prediction.words))

    def asked(self) -> list[Generate]:
        return [command.request for command in self.stage.sent if isinstance(command, Predict)]

    def pause(self) -> None:
        self.qtbot.waitUntil(lambda: not self.prediction._pause.isActive())

    def predict(self, text: str, edited_id: str | None = None) -> Generate:
        """Write, pause, and return what the engine was asked."""
        before = len(self.asked())
        self.prediction.draft(text, edited_id)
        self.pause()
        assert len(self.asked()) == before + 1
        return self.asked()[-1]

    def answer(self, request: Generate, cached: int = 8112, seconds: float | None = 0.2) -> None:
        self.prediction.handle(Predicted(request.id, 8140, cached, 0, seconds))


@pytest.fixture
def oracle(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Oracle:
    monkeypatch.setattr(prediction, "PAUSE_MS", 20)
    return Oracle(qtbot)


def test_it_is_asked_once_when_typing_pauses(oracle: Oracle) -> None:
    for end in range(1, 6):
        oracle.prediction.draft("hello"[:end])
    assert oracle.asked() == []
    oracle.pause()
    assert len(oracle.asked()) == 1
    oracle.answer(oracle.asked()[0])
    assert oracle.prediction.words == "8,112 of 8,140 tokens cached, about 0.2 s"


def test_the_reason_why_much_is_missing_is_told_with_it(oracle: Oracle) -> None:
    request = oracle.predict("hello")
    oracle.prediction.handle(Predicted(request.id, 8140, 8, 0, 60.0, 8, "evicted"))
    assert oracle.prediction.words == "8 of 8,140 tokens cached, about 60 s"
    assert oracle.prediction.why == "the rest was no longer kept"
    oracle.answer(oracle.predict("hello there"))
    assert oracle.prediction.why == ""


def test_what_is_asked_is_what_would_be_sent(oracle: Oracle) -> None:
    answered(oracle.stage, "one", "two")
    request = oracle.predict("three")
    assert request == oracle.stage.chat.draft(request.id, "three")
    edited = oracle.stage.chat.messages[0].id
    request = oracle.predict("uno", edited)
    assert request == oracle.stage.chat.draft(request.id, "uno", edited)
    assert request.messages
    assert len(request.messages) == 1


def test_an_answer_that_comes_too_late_is_passed_over(oracle: Oracle) -> None:
    old = oracle.predict("hello")
    oracle.prediction.draft("hello there")
    oracle.answer(old)
    assert oracle.prediction.words == ""
    oracle.pause()
    oracle.answer(old)
    assert oracle.prediction.words == ""
    oracle.answer(oracle.asked()[-1])
    assert oracle.prediction.words


def test_the_last_one_stands_while_writing_goes_on(oracle: Oracle) -> None:
    oracle.answer(oracle.predict("hello"))
    oracle.prediction.draft("hello the")
    assert oracle.prediction.words
    assert len(oracle.said) == 1


@pytest.mark.parametrize("text", ["", "  \n"])
def test_without_words_nothing_is_asked_or_shown(oracle: Oracle, text: str) -> None:
    oracle.answer(oracle.predict("hello"))
    oracle.prediction.draft(text)
    assert oracle.prediction.words == ""
    assert not oracle.prediction._pause.isActive()


def test_another_draft_or_conversation_starts_afresh(oracle: Oracle) -> None:
    answered(oracle.stage, "one", "two")
    oracle.answer(oracle.predict("hello"))
    oracle.prediction.draft("uno", oracle.stage.chat.messages[0].id)
    assert oracle.prediction.words == ""
    oracle.answer(oracle.predict("hello"))
    oracle.prediction.restart("hello")
    assert oracle.prediction.words == ""
    oracle.pause()
    oracle.answer(oracle.asked()[-1])
    assert oracle.prediction.words


def test_what_one_model_would_find_is_not_said_of_another(oracle: Oracle) -> None:
    oracle.stage.ready("/models/another")
    oracle.stage.ready()
    request = oracle.predict("hello")
    oracle.prediction.handle(Predicted(request.id, 8140, 8, 0, 60.0, 8, "evicted"))
    assert oracle.prediction.words
    oracle.stage.models.choose("/models/another")
    oracle.prediction.renew()
    assert (oracle.prediction.words, oracle.prediction.why) == ("", "")
    oracle.pause()
    assert oracle.asked()[-1].model == "/models/another"
    oracle.answer(oracle.asked()[-1], cached=2)
    assert oracle.prediction.words == "2 of 8,140 tokens cached, about 0.2 s"


def test_nothing_is_asked_while_an_answer_is_on_its_way(oracle: Oracle) -> None:
    request = oracle.stage.ask("hello")
    oracle.stage.play(TextChunk(request.id, "Hi", 1))
    oracle.prediction.draft("more")
    oracle.pause()
    assert oracle.asked() == []
    oracle.stage.play(finished(last_request(oracle.stage), "Hi"))
    oracle.prediction.renew()
    oracle.pause()
    assert len(oracle.asked()) == 1


def test_what_the_send_would_fail_with_is_said_before_it(oracle: Oracle) -> None:
    oracle.answer(oracle.predict("hello"))
    request = oracle.predict("hello there")
    too_long = "the prompt has 72 tokens and the context holds 64; shorten it or start a new chat"
    oracle.prediction.handle(Failed("another", too_long, "PromptTooLong"))
    assert "cached" in oracle.prediction.words
    oracle.prediction.handle(Failed(request.id, too_long, "PromptTooLong"))
    assert oracle.prediction.words == "The prompt has 72 tokens and the context holds 64"
    refused = Failed("", "no room", "Refused", refusal=Refusal(4, 2, ()))
    request = oracle.predict("hello there, you")
    oracle.prediction.handle(replace(refused, id=request.id))
    assert oracle.prediction.words == failure_words(refused)
    oracle.answer(oracle.predict("hello"))
    assert "cached" in oracle.prediction.words


def test_it_is_asked_again_when_pages_have_come_back_from_ssd(oracle: Oracle) -> None:
    request = oracle.predict("hello")
    oracle.prediction.handle(ChatsCached({}))  # of another chat, say
    assert not oracle.prediction._pause.isActive()
    oracle.prediction.handle(Predicted(request.id, 79, 0, 64, None))
    assert oracle.prediction.words == "64 of 79 tokens cached"
    oracle.prediction.handle(ChatsCached({}))
    oracle.pause()
    assert len(oracle.asked()) == 2
    oracle.prediction.handle(Predicted(oracle.asked()[-1].id, 79, 64, 0, 0.2))
    assert oracle.prediction.words == "64 of 79 tokens cached, about 0.2 s"
    oracle.prediction.handle(ChatsCached({}))
    assert not oracle.prediction._pause.isActive()


def test_it_is_asked_again_when_the_pages_of_the_chat_on_show_come_or_go(oracle: Oracle) -> None:
    answered(oracle.stage, "one", "two")
    shown = oracle.stage.chat.chat
    assert shown
    memory = {shown.id: ChatMemory(4096, 0, 0), "another": ChatMemory(512, 0, 0)}
    oracle.prediction.handle(ChatsCached(memory))
    assert oracle.asked() == []
    oracle.answer(oracle.predict("hello"))
    oracle.prediction.handle(ChatsCached({shown.id: memory[shown.id]}))
    assert not oracle.prediction._pause.isActive()
    oracle.prediction.handle(ChatsCached({}))
    oracle.pause()
    assert len(oracle.asked()) == 2
    oracle.answer(oracle.asked()[-1], cached=2)
    assert oracle.prediction.words == "2 of 8,140 tokens cached, about 0.2 s"


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        pytest.param({}, 2, id="all are gone"),
        pytest.param({"another": ChatMemory(256, 512, 0)}, 2, id="some left memory"),
        pytest.param({"another": ChatMemory(512, 256, 0)}, 2, id="some left the SSD"),
        pytest.param({"another": ChatMemory(1024, 512, 0)}, 1, id="more came"),
    ],
)
def test_it_is_asked_again_when_a_chat_without_pages_may_have_lost_those_of_others(
    oracle: Oracle, now: dict[str, ChatMemory], asked: int
) -> None:
    oracle.prediction.handle(ChatsCached({"another": ChatMemory(512, 512, 0)}))
    oracle.answer(oracle.predict("hello"))
    oracle.prediction.handle(ChatsCached(now))
    oracle.pause()
    assert len(oracle.asked()) == asked


def test_pages_that_leave_with_their_model_do_not_bring_it_back(oracle: Oracle) -> None:
    answered(oracle.stage, "one", "two")
    shown = oracle.stage.chat.chat
    assert shown
    oracle.prediction.handle(ChatsCached({shown.id: ChatMemory(4096, 0, 0)}))
    oracle.answer(oracle.predict("hello"))
    oracle.prediction.handle(ChatsCached({shown.id: ChatMemory(0, 4096, 0)}))
    oracle.stage.models.handle(ModelUnloaded("/models/tiny", "idle"))
    oracle.prediction.renew()
    oracle.pause()
    assert len(oracle.asked()) == 1
    oracle.predict("hello there")
