"""What is asked of the engine for a path of messages."""

from __future__ import annotations

from app.chat.request import request_for
from app.store.records import Chat, ChatMessage
from engine import Generate, History, Message, SamplingParams

PATH = (
    ChatMessage("c", "user", "one", tokens=(1, 2)),
    ChatMessage("c", "assistant", "two", model="/m", tokens=(3,)),
    ChatMessage("c", "user", "three"),
)
SAMPLING = SamplingParams(temperature=0.5, seed=7)


def test_a_request_has_the_path_in_words_and_as_it_was_computed() -> None:
    assert request_for("r", Chat("t", id="c"), PATH, "/m", SAMPLING, 2) == Generate(
        "r",
        messages=(Message("user", "one"), Message("assistant", "two"), Message("user", "three")),
        sampling=SAMPLING,
        history=History((1, 2, 3), 2, "/m"),
        chat="c",
        lane="window",
        n=2,
        model="/m",
    )


def test_what_the_chat_began_with_is_told_first_and_counted() -> None:
    request = request_for("r", Chat("t", id="c", system="Be brief."), PATH, "/m", SAMPLING)
    assert request.messages is not None
    assert request.messages[:2] == (Message("system", "Be brief."), Message("user", "one"))
    assert request.history == History((1, 2, 3), 3, "/m")
    assert (request.n, request.max_tokens) == (1, None)
