"""A line of a list's row, as it is on the screen."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.widgets.row_paint import paint_line

WIDTH, HEIGHT, DOTS = 160, 32, 4  # an ellipsis is no more pixels high


class Row(QWidget):
    """Paints one line in itself."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.setStyleSheet("background: white")
        self.resize(WIDTH, HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """The line, and nothing else."""
        font = QFont("DejaVu Sans")
        font.setPixelSize(16)
        painter = QPainter(self)
        paint_line(painter, self.rect(), self._words, "#000000", font)
        painter.end()


def ink(words: str) -> list[tuple[int, int]]:
    """Of each column with ink, from the left on: which it is, and how high its ink is."""
    image = Row(words).grab().toImage()
    found: list[tuple[int, int]] = []
    for x in range(WIDTH):
        rows = [y for y in range(HEIGHT) if image.pixelColor(x, y).value() < 128]
        if rows:
            found.append((x, rows[-1] - rows[0] + 1))
    return found


@pytest.mark.parametrize(("word", "is_leftwards"), [("words ", False), ("שלום ", True)])
def test_it_is_cut_at_its_end_in_its_own_direction(
    application: QApplication, word: str, is_leftwards: bool
) -> None:
    columns = ink(word * 20)
    first, last = ([height for _, height in side] for side in (columns[:6], columns[-6:]))
    cut, begun = (first, last) if is_leftwards else (last, first)
    assert max(cut) <= DOTS < max(begun)


@pytest.mark.parametrize("word", ["words", "שלום"])
def test_what_is_short_begins_where_the_room_does(application: QApplication, word: str) -> None:
    assert ink(word)[0][0] <= 3
