"""The line under an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from app.chat.answer_notes import CUT_WORDS, note_for, progress_of
from app.store.records import ChatMessage, Status
from engine import Limit

DONE = ChatMessage("c", "assistant", "text", generated_tokens=1234, ttft_ms=85.0, decode_tps=62.4)


def test_a_complete_answer_shows_its_numbers() -> None:
    assert note_for(DONE) == "1,234 tokens  ·  62 tok/s  ·  first word after 85 ms"


def test_one_token_has_no_speed() -> None:
    assert note_for(replace(DONE, generated_tokens=1, decode_tps=0.0)) == "1 token  ·  first word after 85 ms"


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0.2, "1 ms"),
        (4.7, "5 ms"),
        (99.9, "100 ms"),
        (100.0, "0.10 s"),
        (1234.0, "1.23 s"),
        (12345.0, "12 s"),
    ],
)
def test_the_wait_is_told_as_finely_as_it_was(milliseconds: float, words: str) -> None:
    assert note_for(replace(DONE, ttft_ms=milliseconds)).endswith(f"first word after {words}")


@pytest.mark.parametrize(
    ("status", "note"),
    [("stopped", "Stopped"), ("length", "no room for more"), ("interrupted", "was closed")],
)
def test_other_ends_are_named(status: Status, note: str) -> None:
    assert note in note_for(replace(DONE, status=status))


@pytest.mark.parametrize("limit", get_args(Limit))
def test_an_answer_that_was_cut_says_by_what(limit: Limit) -> None:
    cut = replace(DONE, status="length", error=CUT_WORDS[limit])
    words = {
        "context": "context is full",
        "setting": "settings",
        "memory": "KV memory",
        "max_tokens": "allowed",
    }
    assert words[limit] in note_for(cut)
    assert note_for(cut).endswith(note_for(DONE))


def test_a_miss_stands_on_a_line_of_its_own() -> None:
    missed = replace(DONE, missed_from=1512, miss_reason="evicted")
    numbers, reason = note_for(missed).split("\n")
    assert numbers == note_for(DONE)
    assert reason == "Read again from token 1,512: it was no longer kept"


def test_nothing_is_said_while_it_is_written_or_unknown() -> None:
    assert note_for(replace(DONE, status="streaming")) == ""
    assert note_for(ChatMessage("c", "assistant", "text", status="failed")) == ""


@pytest.mark.parametrize("words", ["", " \n"])
def test_one_that_is_blank_says_so(words: str) -> None:
    blank = replace(DONE, text=words, generated_tokens=1)
    assert note_for(blank) == "The model ended without a word"
    assert progress_of(blank) == "1 token  ·  Without a word"
    assert progress_of(replace(blank, generated_tokens=0)) == "Without a word"
    assert progress_of(replace(blank, text="text")) == "1 token"
    assert progress_of(replace(blank, status="stopped")) == "1 token  ·  Stopped"
