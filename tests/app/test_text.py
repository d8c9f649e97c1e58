"""Words that Qt would read as something else."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.text import untagged


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
