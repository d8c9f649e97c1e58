"""What a screen reader is told of an answer: its words, and nothing of how they are marked."""

from __future__ import annotations

import unicodedata

import pytest
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit, QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.code_view import CodeView
from app.chat.prose_view import ProseView
from app.theme import LIGHT

PROSE = {
    "**Bold** and `code`, a [link](https://example.org)": "Bold and code, a link",
    "## A heading\n\n- one\n- *two*\n\n1. first": "A heading\none\ntwo\nfirst",
    "e\u0301tude \U0001f469\u200d\U0001f4bb": "e\u0301tude \U0001f469\u200d\U0001f4bb",
    "| a | b |\n|---|---|\n| 1 | 2 |": "a\nb\n1\n2",
    "a < b & c > d": "a < b & c > d",
}


def read(widget: QWidget) -> str:
    return QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Value)


@pytest.mark.parametrize("markdown", PROSE)
def test_prose_is_its_words(qtbot: QtBot, markdown: str) -> None:
    view = ProseView()
    qtbot.addWidget(view)
    for end in range(1, len(markdown)):  # as it is written
        view.grow_markdown(markdown[:end], LIGHT)
    view.grow_markdown(markdown, LIGHT)
    view.settle(LIGHT)
    said = read(view)
    assert [line for line in said.split("\n") if line] == PROSE[markdown].split("\n")
    assert not [c for c in said if c != "\n" and unicodedata.category(c) in ("Cc", "Cn", "Co", "Cs")]


def test_code_is_its_lines(qtbot: QtBot, appearance: Appearance) -> None:
    view = CodeView(appearance)
    qtbot.addWidget(view)
    code = "def f(x):\n    return x < 1 & 2"
    view.show_code(code, "python")
    (inside,) = [*view.findChildren(QTextEdit), *view.findChildren(QPlainTextEdit)]
    assert read(inside) == code
