"""The toast offers one way back, for a while."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.widgets.toast import Toast


def test_it_offers_and_goes(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.resize(600, 400)
    parent.show()
    toast = Toast(parent)
    assert toast.isHidden()
    undone: list[str] = []
    toast.offer("Deleted A", "Undo", lambda: undone.append("A"))
    toast.offer("Deleted B", "Undo", lambda: undone.append("B"))
    assert (toast.text, toast.isVisible()) == ("Deleted B", True)
    toast._button.click()
    assert undone == ["B"]
    assert toast.isHidden()
    toast.offer("Deleted C", "Undo", lambda: undone.append("C"))
    toast._timer.timeout.emit()
    assert toast.isHidden()
    assert undone == ["B"]


def test_a_word_that_is_longer_than_a_line_leaves_room_for_the_way_back(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.resize(420, 400)
    parent.show()
    toast = Toast(parent)
    words = f"Deleted “https://example.org/{'a_long_way_' * 10}”"
    toast.offer(words, "Undo", lambda: None)
    assert parent.rect().contains(toast.geometry())
    assert toast.rect().contains(toast._button.geometry())
    assert toast._text.width() >= toast._text.fontMetrics().horizontalAdvance("Deleted “https://example.org…")
    parent.resize(2000, 400)
    qtbot.waitUntil(lambda: toast._text.text() == words)
    assert toast.text == words


def test_it_stays_in_the_middle(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.resize(600, 400)
    parent.show()
    toast = Toast(parent)
    toast.offer("Deleted", "Undo", lambda: None)
    for width in (600, 900):
        parent.resize(width, 400)
        qtbot.waitUntil(lambda width=width: abs(toast.geometry().center().x() - width / 2) <= 1)


def test_long_words_take_more_lines_and_stay_within_the_parent(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.resize(900, 400)
    parent.show()
    toast = Toast(parent)
    words = "a-large-model-with-a-long-name is loaded; another-one-of-that-kind was unloaded to make room"
    toast.offer(words, "Chat with it", lambda: None)
    one_line = toast.height()
    parent.resize(420, 400)
    qtbot.waitUntil(lambda: toast.height() > one_line)
    assert parent.rect().contains(toast.geometry())
    assert toast.rect().contains(toast._button.geometry())
    parent.resize(900, 400)
    qtbot.waitUntil(lambda: toast.height() == one_line)
