"""The status line shows its words, nothing where there are none, and less where room is short."""

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


def test_in_a_narrow_window_the_last_fields_give_way(qtbot: QtBot) -> None:
    line = StatusLine()
    qtbot.addWidget(line)
    line.resize(2000, 32)
    line.show()
    activity = "128,112 of 128,140 tokens cached, about 12.2 s"
    line.show_texts("Guide", StatusTexts(activity, "31 tok/s", "40 / 2,048 tokens", "3 / 512 pages"))
    labels = (line._model, line._activity, line._speed, line._context, line._pages)
    assert all(label.isVisible() for label in labels)
    for width in range(2000, 100, -50):
        line.resize(width, 32)
        line.layout().activate()
        shown = [label.isVisible() for label in labels]
        assert shown == sorted(shown, reverse=True)
        visible = [label for label in labels if label.isVisible()]
        assert all(label.width() >= label.sizeHint().width() for label in visible)
    assert shown == [True, False, False, False, False]
    assert line.minimumSizeHint().width() == 0
    line.resize(2000, 32)
    assert all(label.isVisible() for label in labels)
