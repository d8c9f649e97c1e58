"""A text field that grows with its text."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QTextCursor
from pytestqt.qtbot import QtBot

from app.widgets.growing_text import GrowingText


def field_of(qtbot: QtBot, most_lines: int = 4) -> GrowingText:
    field = GrowingText("Field", most_lines, 0)
    qtbot.addWidget(field)
    field.resize(300, 30)
    field.show()
    return field


def test_it_grows_by_lines_up_to_its_limit(qtbot: QtBot) -> None:
    field = field_of(qtbot)
    heights: list[int] = []
    for lines in range(1, 7):
        field.setPlainText("\n".join(["line"] * lines))
        heights.append(field.height())
    line = field.cursorRect().height()
    assert [higher - lower for lower, higher in pairwise(heights)] == [line, line, line, 0, 0]
    assert field.verticalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAsNeeded
    field.setPlainText("")
    assert field.height() == heights[0]
    assert field.verticalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff


@pytest.mark.parametrize("pixels", [13, 14, 15, 19])
def test_a_long_text_shows_as_many_lines_as_it_may(qtbot: QtBot, pixels: int) -> None:
    field = field_of(qtbot)
    font = field.font()
    font.setPixelSize(pixels)
    field.setFont(font)
    field.setPlainText("word " * 100)
    field.moveCursor(QTextCursor.MoveOperation.End)
    cursor = field.textCursor()
    assert field.cursorRect(cursor).bottom() < field.viewport().height()
    for _ in range(3):
        cursor.movePosition(QTextCursor.MoveOperation.Up)
    assert field.cursorRect(cursor).top() >= 0
    assert field.verticalScrollBar().value() == field.verticalScrollBar().maximum()


def test_one_line_stands_in_the_middle(qtbot: QtBot) -> None:
    field = GrowingText("Field", 4, 60)
    qtbot.addWidget(field)
    field.resize(300, 30)
    field.show()
    for words in ("", "line", "line\nline"):
        field.setPlainText(words)
        first = field.cursorRect(QTextCursor(field.document().firstBlock()))
        last = field.cursorRect(QTextCursor(field.document().lastBlock()))
        top = field.viewport().mapTo(field, first.topLeft()).y()
        bottom = field.viewport().mapTo(field, last.bottomLeft()).y() + 1
        assert field.height() == 60
        assert abs(top - (60 - bottom)) <= 1
        assert field.verticalScrollBar().maximum() == 0


def test_wrapped_lines_count(qtbot: QtBot) -> None:
    field = field_of(qtbot)
    one = field.height()
    with qtbot.waitSignal(field.height_changed):
        field.setPlainText("word " * 30)
    assert field.height() > one


def test_a_narrower_field_is_as_high_as_its_lines_then(qtbot: QtBot) -> None:
    field = field_of(qtbot, 8)
    field.setPlainText("word " * 20)  # in a small font, too, two lines more at half the width
    wide = field.height()
    with qtbot.waitSignal(field.height_changed):
        field.resize(150, wide)
    assert field.height() >= wide + 2 * field.fontMetrics().lineSpacing()
    field.resize(300, field.height())
    assert field.height() == wide


def test_focus_is_told(qtbot: QtBot) -> None:
    field = field_of(qtbot)
    with qtbot.waitSignal(field.focus_changed) as told:
        field.setFocus()
        field.activateWindow()
    assert told.args == [True]


def seconds_to_paste(field: GrowingText, text: str) -> float:
    source = QMimeData()
    source.setText(text)
    begun = time.process_time()
    field.insertFromMimeData(source)
    field.grab()
    return time.process_time() - begun


def test_bytes_in_hexadecimal_are_pasted_about_as_quickly_as_words(qtbot: QtBot) -> None:
    words, unbroken = "4a7f " * 20_000, "4a7f4" * 20_000
    assert seconds_to_paste(field_of(qtbot), unbroken) < 8 * seconds_to_paste(field_of(qtbot), words)


def begins_of_lines(field: GrowingText) -> list[str]:
    """The character before each line but the first."""
    layout = field.document().firstBlock().layout()
    starts = [layout.lineAt(number).textStart() for number in range(1, layout.lineCount())]
    return [field.toPlainText()[start - 1] for start in starts]


def test_words_stay_whole_again_once_what_was_pasted_has_gone(qtbot: QtBot) -> None:
    field, words = field_of(qtbot), "some words of a message " * 20
    field.setPlainText(words)
    assert set(begins_of_lines(field)) == {" "}
    seconds_to_paste(field, "4a7f4" * 20_000)
    assert set(begins_of_lines(field)) > {" "}
    field.selectAll()
    qtbot.keyClick(field, Qt.Key.Key_Delete)
    qtbot.keyClicks(field, words)
    assert set(begins_of_lines(field)) == {" "}
