"""The words for each state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import text
from app.chat.chat_words import activity, greeting, load_problem, placeholder
from app.chat.open_chat import ChatState
from app.models.known_model import ModelState

READY = ModelState("ready", "/models/tiny-chat")
LOADING = ModelState("loading", "/models/tiny-chat")
FAILED = ModelState("failed", "/models/tiny-chat", error="no")


def test_the_guide_says_what_it_is_and_offers_what_it_can_answer() -> None:
    words = greeting(READY, is_guide=True)
    assert "guide" in words.text
    assert words.suggestions == text.GUIDE_SUGGESTIONS
    assert len(words.suggestions) == 3


def test_another_model_is_named() -> None:
    assert "tiny-chat" in greeting(READY, is_guide=False).text


@pytest.mark.parametrize("model", [ModelState(), FAILED])
def test_without_a_model_it_says_how_to_get_one(model: ModelState) -> None:
    assert greeting(model, is_guide=False).suggestions == ()
    assert "Open a model" in placeholder(ChatState(), model, is_guide=False)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (READY, ""),
        (FAILED, "tiny-chat could not be opened: no"),
        (replace(READY, error="no"), "tiny-chat stays as it was; it could not be loaded anew: no"),
        (replace(FAILED, phase="resting"), "tiny-chat stays as it was; it could not be loaded anew: no"),
    ],
)
def test_what_is_wrong_with_a_load(model: ModelState, words: str) -> None:
    assert load_problem(model, is_guide=False) == words


@pytest.mark.parametrize(
    ("chat", "model", "words"),
    [
        (ChatState("idle"), READY, ""),
        (ChatState("streaming"), READY, ""),
        (ChatState("waiting"), READY, "Waiting for the model…"),
        (ChatState("waiting"), LOADING, "Opening tiny-chat…"),
        (ChatState("waiting", why="no room"), replace(READY, phase="resting"), "Waiting: no room"),
        (
            ChatState("waiting"),
            replace(LOADING, progress=1.0, is_trying=True),
            "Finding out how tiny-chat runs fastest here. This is done once…",
        ),
        (ChatState("prefilling", 512, 2000), READY, "Reading 512 of 2,000 tokens"),
        (ChatState("prefilling", 28, 28, 8112), READY, "Reading 28 of 28 new tokens · 8,112 cached"),
        (
            ChatState("prefilling", 28, 28, 8112, 90.0, "the message was edited"),
            READY,
            "Reading 28 of 28 new tokens · 8,112 cached · about 90 s left · the message was edited",
        ),
        (ChatState("stopping"), READY, "Stopping…"),
    ],
)
def test_what_is_going_on(chat: ChatState, model: ModelState, words: str) -> None:
    assert activity(chat, model, is_guide=False) == words


def test_what_waits_for_another_answer_says_how_far_that_is() -> None:
    reading = "Reading 512 of 2,000 tokens"
    waiting = activity(ChatState("waiting"), READY, False, reading)
    assert waiting == "Waiting for another answer: reading 512 of 2,000 tokens"
    assert activity(ChatState("prefilling", 1, 9), READY, False, reading) == "Reading 1 of 9 tokens"
    assert activity(ChatState("idle"), READY, False, reading) == ""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("the prompt is too long", "The prompt is too long"),
        ("offline: the Hub cannot be found", "Offline: the Hub cannot be found"),
        ("config.json is missing", "config.json is missing"),
        ("config.json: no such file", "config.json: no such file"),
        ("MLX failed", "MLX failed"),
        ("", ""),
    ],
)
def test_errors_become_sentences(line: str, sentence: str) -> None:
    assert text.sentence(line) == sentence
