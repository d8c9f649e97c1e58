"""Growing prose word by word shows what reading the whole of it would."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from app.chat.plain_growth import plain_growth
from app.chat.prose_view import ProseView
from app.theme import LIGHT

PIECES = st.sampled_from(
    [
        "word",
        " word",
        " ",
        ".",
        " and more",
        "\n",
        "\n\n",
        "**",
        "*",
        "_",
        "`",
        "- ",
        "1. ",
        "\u0301 ",
        "\u200d",
        "\U0001f469",
        "1",
        "# ",
        "| a | b |",
        "|",
        "[a](b)",
        "&am",
        "p;",
        "www",
        ".example",
        ".org",
        "a@b",
        ".de",
        "https:",
        "//x.y",
        "<",
        ">",
        "~~",
        "\\",
        "    ",
        "  ",
        "é",
        "羊",
        "--",
    ]
)


@pytest.mark.parametrize(
    ("shown", "wanted", "added"),
    [
        ("Some words", "Some words more", " more"),
        ("Some words ", "Some words more", " more"),
        ("Some words", "Some words ", ""),
        ("- an item", "- an item goes on.", " goes on."),
        ("**bold** and", "**bold** and on", " on"),
    ],
)
def test_words_are_added_as_they_are(shown: str, wanted: str, added: str) -> None:
    assert plain_growth(shown, wanted) == added


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        ("Some words", "Other words"),
        ("Some words", "Some words\nnext"),
        ("Some words", "Some words *"),
        ("1", "1. item"),
        ("", "word"),
        ("| a", "| a b"),
        ("fish &am", "fish &amp;"),
        ("see www", "see www.example"),
        ("mail a@b", "mail a@b.de"),
        ("    code is", "    code is here"),
        ("snake", "snake_case"),
    ],
)
def test_what_markdown_may_see_more_in_is_read_again(shown: str, wanted: str) -> None:
    assert plain_growth(shown, wanted) is None


@given(st.lists(PIECES, min_size=1, max_size=14))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_growth_shows_the_same_words_and_settles_the_same(qtbot: QtBot, pieces: list[str]) -> None:
    grown, whole = ProseView(), ProseView()
    text = ""
    for piece in pieces:
        text += piece
        grown.grow_markdown(text, LIGHT)
        whole.show_markdown(text, LIGHT)
        assert grown.toPlainText() == whole.toPlainText()
        assert grown.toHtml() == whole.toHtml()
    grown.settle(LIGHT)
    assert grown.toHtml() == whole.toHtml()
