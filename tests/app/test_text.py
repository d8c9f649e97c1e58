"""Words that Qt would read as something else."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextLayout, QTextLine
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.text import DELETED, WAY_EVICT, isolated, titled, untagged


def drawn(qtbot: QtBot, words: str, form: Qt.TextFormat) -> QLabel:
    label = QLabel()
    qtbot.addWidget(label)
    label.setTextFormat(form)
    label.setText(words)
    label.adjustSize()
    return label


@pytest.mark.parametrize(
    "words",
    [
        "What is a <p>?\n164 kB in memory",
        "a < b and <b>bold</b>",
        "<img src=/x.png>",
        "&lt;p&gt;",
        "<!doctype html> and <br/>",
        "What is a page?",
    ],
)
def test_a_tooltip_shows_words_as_they_are(qtbot: QtBot, words: str) -> None:
    """Its label takes for HTML what looks like it."""
    tip = drawn(qtbot, untagged(words), Qt.TextFormat.AutoText)
    plain = drawn(qtbot, words, Qt.TextFormat.PlainText)
    assert tip.size() == plain.size()
    assert tip.grab().toImage() == plain.grab().toImage()


def as_seen(words: str) -> str:
    """The letters in the order in which Qt draws them, from the left; no marks for directions.

    By what lies at each place of the line: what glyphs say of themselves depends on a machine's fonts.
    """
    layout = QTextLayout(words)
    layout.beginLayout()
    line = layout.createLine()
    line.setLineWidth(10_000)
    layout.endLayout()
    places = [
        line.xToCursor(x / 4, QTextLine.CursorPosition.CursorOnCharacter)
        for x in range(int(4 * line.naturalTextWidth()))
    ]
    seen = "".join(words[place] for place in dict.fromkeys(places) if place < len(words))
    return seen.translate({ord(mark): None for mark in "\u2068\u2069"})


TITLE = "\u05d0\u05d1 \u05d2\u05d3…"
"""In Hebrew: it is read from the right, and what cuts it short is at its left end."""


def test_a_title_of_any_length_has_its_place_in_a_line() -> None:
    assert titled("x" * 60) == "x" * 60
    assert titled("x" * 61) == "x" * 59 + "…"
    assert titled("a name with a blank at its cut", 12) == "a name with…"
    assert titled(TITLE[:2] * 40) == isolated((TITLE[:2] * 40)[:59] + "…")


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (
            WAY_EVICT.format(chat=f"“{isolated(TITLE)}”", amount="9 pages"),
            f"Let go of the memory of “{TITLE[::-1]}”, 9 pages",
        ),
        (DELETED.format(title=isolated(TITLE)), f"Deleted “{TITLE[::-1]}”"),
        (DELETED.format(title=isolated("What is a page?")), "Deleted “What is a page?”"),
    ],
)
def test_a_name_that_is_read_from_the_right_leaves_the_line_around_it(
    qtbot: QtBot, words: str, seen: str
) -> None:
    assert as_seen(words) == seen
