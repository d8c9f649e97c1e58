"""The status line shows its words, nothing where there are none, and less where room is short."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
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
    texts = StatusTexts(
        activity, "31 tok/s", "40 / 2,048 tokens", "3 / 512 pages", "first token 81 ms", "191 MB", "why"
    )
    line.show_texts("Guide", texts)
    labels = line._labels
    assert len(labels) == 8
    assert all(label.isVisible() for label in labels)
    for width in range(2000, 100, -50):
        line.resize(width, 32)
        line.layout().activate()
        shown = [label.isVisible() for label in labels]
        assert shown == sorted(shown, reverse=True)
        visible = [label for label in labels if label.isVisible()]
        assert all(label.width() >= label.sizeHint().width() for label in visible)
    assert shown == [True, *[False] * 7]
    assert labels[0].text().startswith("128,112 of 12")  # what goes on stays, and not the model's name
    assert labels[0].text().endswith("…")
    assert activity in line.words
    assert line._activity.toolTip() == "why"
    assert line.minimumSizeHint().width() == 0
    line.resize(2000, 32)
    assert all(label.isVisible() for label in labels)


def test_a_long_name_leaves_room_for_the_figures(qtbot: QtBot) -> None:
    line = StatusLine()
    qtbot.addWidget(line)
    line.resize(560, 32)
    line.show()
    name = "bartowski/Meta-Llama-3.1-8B-Instruct-abliterated-GGUF" * 3
    line.show_texts(name, StatusTexts("", "31 tok/s", "40 / 2,048 tokens"))
    assert all(label.isVisible() for label in (line._model, line._speed, line._context))
    assert "…" in line._model.text()
    assert name in line.words
    line.resize(4000, 32)
    assert line._model.text() == name
    line.resize(560, 32)
    line.show_texts("Meta-Llama-3.1-8B rests: it is loaded again when you write", StatusTexts())
    assert "…" not in line._model.text()


def test_a_click_asks_for_more(qtbot: QtBot) -> None:
    line = StatusLine()
    qtbot.addWidget(line)
    line.resize(800, 32)
    line.show()
    with qtbot.waitSignal(line.clicked):
        qtbot.mouseClick(line, Qt.MouseButton.LeftButton)


def test_out_of_sight_nothing_is_drawn_and_back_in_sight_it_says_the_latest(qtbot: QtBot) -> None:
    """Behind the dashboard it would take a share of a core away from the engine."""
    line = StatusLine()
    qtbot.addWidget(line)
    line.resize(800, 30)
    line.show()
    line.show_texts("guide", StatusTexts(speed="1 tok/s"))
    line.hide()
    labels = line.findChildren(QLabel)
    before = [label.text() for label in labels]
    line.show_texts("guide", StatusTexts(speed="2 tok/s"))
    assert [label.text() for label in labels] == before
    line.show()
    assert "2 tok/s" in [label.text() for label in labels if label.isVisible()]
