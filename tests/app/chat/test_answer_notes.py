"""The line under an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.chat.answer_notes import note_for
from app.store.records import ChatMessage, Status

DONE = ChatMessage("c", "assistant", "text", generated_tokens=1234, ttft_ms=85.0, decode_tps=62.4)


def test_a_complete_answer_shows_its_numbers() -> None:
    assert note_for(DONE) == "1,234 tokens  ·  62 tok/s  ·  first word after 0.09 s"


def test_one_token_has_no_speed() -> None:
    assert (
        note_for(replace(DONE, generated_tokens=1, decode_tps=0.0)) == "1 token  ·  first word after 0.09 s"
    )


@pytest.mark.parametrize(
    ("status", "note"), [("stopped", "Stopped"), ("length", "context is full"), ("interrupted", "was closed")]
)
def test_other_ends_are_named(status: Status, note: str) -> None:
    assert note in note_for(replace(DONE, status=status))


def test_a_miss_stands_on_a_line_of_its_own() -> None:
    missed = replace(DONE, missed_from=1512, miss_reason="evicted")
    numbers, reason = note_for(missed).split("\n")
    assert numbers == note_for(DONE)
    assert reason == "Read again from token 1,512: it was no longer kept"


def test_nothing_is_said_while_it_is_written_or_unknown() -> None:
    assert note_for(replace(DONE, status="streaming")) == ""
    assert note_for(ChatMessage("c", "assistant", "text", status="failed")) == ""
