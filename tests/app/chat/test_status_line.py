"""The status line shows its words, and nothing where there are none."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from app.chat.engine_status import StatusTexts
from app.chat.status_line import StatusLine


def test_words_are_shown_and_empty_ones_hidden(qtbot: QtBot) -> None:
    line = StatusLine()
    qtbot.addWidget(line)
    line.show()
    line.show_texts("Guide", StatusTexts("", "31 tok/s", "40 / 2,048 tokens", "3 / 512 pages"))
    assert line.words == "Guide  31 tok/s  40 / 2,048 tokens  3 / 512 pages"
    assert not line._activity.isVisible()
    line.show_texts("No model", StatusTexts())
    assert line.words == "No model"
    assert not line._pages.isVisible()
