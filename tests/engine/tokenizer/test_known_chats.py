"""A chat that was rendered lately is not cut into tokens again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.commands import History, Message
from engine.tokenizer import Tokenizer, load_tokenizer
from engine.tokenizer.history import chat_prompt

GUIDE = Path(__file__).parents[3] / "resources/guide/model"
DOCUMENT = (Message("user", "A page of memory holds sixteen tokens. " * 50),)


class Cutting:
    """How many characters a tokenizer was given to cut."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer) -> None:
        self.characters = 0
        for name in ("_encode_text", "_encode_marked"):
            whole = getattr(tokenizer, name)

            def note(text: str, *args: str, whole: Callable[..., list[int]] = whole) -> list[int]:
                self.characters += len(text)
                return whole(text, *args)

            monkeypatch.setattr(tokenizer, name, note)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return load_tokenizer(GUIDE, vocab_size=3072)


def test_of_a_next_turn_only_what_is_new_is_cut(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutting = Cutting(monkeypatch, tokenizer)
    ids = tuple(tokenizer.encode_chat(DOCUMENT))
    assert cutting.characters > len(DOCUMENT[0].content)
    for number in range(3):
        cutting.characters = 0
        answer = (*DOCUMENT, Message("assistant", f"{number}"), Message("user", "And then?"))
        history = History((*ids, 7, 2), 2, "m")
        prompt = chat_prompt(tokenizer, answer, history, "m")
        assert (prompt.ids[: len(ids) + 2], prompt.reason) == (history.tokens, None)
        assert cutting.characters < 500


def test_what_is_known_is_what_would_be_cut(tokenizer: Tokenizer) -> None:
    chats = [(Message("user", text),) for text in ("one", "two", "</s> three", "four", "five", "six")]
    for chat in (*chats, *chats[::-1], *chats):
        ids = tokenizer.encode_chat(chat)
        assert ids == load_tokenizer(GUIDE, vocab_size=3072).encode_chat(chat)  # which knows none yet
        ids.clear()  # the caller's own


def test_no_more_than_the_latest_are_known(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    cutting = Cutting(monkeypatch, tokenizer)
    tokenizer.encode_chat(DOCUMENT)
    for number in range(3):
        tokenizer.encode_chat((Message("user", f"{number}"),))
    cutting.characters = 0
    tokenizer.encode_chat(DOCUMENT)
    assert cutting.characters == 0
    for number in range(4):
        tokenizer.encode_chat((Message("user", f"{number} more"),))
    cutting.characters = 0
    tokenizer.encode_chat(DOCUMENT)
    assert cutting.characters > len(DOCUMENT[0].content)
