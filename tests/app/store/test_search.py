"""Snippets around what a search found."""

from __future__ import annotations

from app.store.search import SNIPPET_LENGTH, snippet


def test_snippet_shows_the_word_and_marks_what_is_left_out() -> None:
    text = "first " * 30 + "needle " + "last " * 30
    found = snippet(text, ["needle"])
    assert "needle" in found
    assert found.startswith("…")
    assert found.endswith("…")
    assert len(found) <= SNIPPET_LENGTH + 2


def test_short_text_is_shown_whole_on_one_line() -> None:
    assert snippet("one\ntwo  three", ["TWO"]) == "one two three"


def test_word_that_is_not_there_shows_the_start() -> None:
    assert snippet("start of it", ["absent"]) == "start of it"
