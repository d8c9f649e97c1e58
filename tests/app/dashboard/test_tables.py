"""Tables of words: what is filled in is shown, its columns wide enough, at the price of one measuring."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.dashboard.tables import fill, plain_table

COLUMNS = ("Name", "First", "Second")


@pytest.mark.parametrize("count", [0, 1, 50])
def test_new_words_have_the_columns_measured_once(qtbot: QtBot, count: int) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    table = plain_table(holder, COLUMNS, "A table")
    QVBoxLayout(holder).addWidget(table)
    holder.resize(600, 400)
    holder.show()
    fill(table, [(f"{row}", "1", "2") for row in range(count)], most=8)
    told: list[tuple[int, int]] = []

    def tell(first: QModelIndex, last: QModelIndex) -> None:
        told.append((last.row() - first.row(), last.column() - first.column()))

    table.model().dataChanged.connect(tell)
    rows = [(f"{row}", f"{row:012}", "2") for row in range(count)]
    fill(table, rows, most=8)
    assert told == ([(count - 1, 2)] if count else [])
    shown = [[table.item(row, column) for column in range(3)] for row in range(count)]
    assert [tuple(item.text() if item else "" for item in line) for line in shown] == rows
    assert table.columnWidth(1) >= table.sizeHintForColumn(1)


def test_words_that_are_cut_off_fill_their_cell_and_are_whole_on_hover(
    qtbot: QtBot, appearance: Appearance
) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    table = plain_table(holder, COLUMNS, "A table")
    QVBoxLayout(holder).addWidget(table)
    holder.resize(300, 400)
    holder.show()
    title = f"A {'very' * 20} long title"
    fill(table, [(title, "1", "2")], most=8)
    item = table.item(0, 0)
    assert item
    assert item.toolTip() == title
    cell = table.visualItemRect(item)
    drawn = table.viewport().grab(cell).toImage()
    ground, lines = drawn.pixelColor(0, 0), range(2, cell.height() - 2)
    inked = (x for x in range(cell.width()) if any(drawn.pixelColor(x, y) != ground for y in lines))
    last = max(inked)
    assert last > 0.8 * cell.width()


def test_a_title_that_is_read_from_the_right_keeps_its_end_beside_it(
    qtbot: QtBot, appearance: Appearance
) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    table = plain_table(holder, COLUMNS, "A table")
    fill(table, [("\u05d0\u05d1…", "1", "2"), ("A title…", "1", "2")], most=8)
    items = [table.item(row, 0) for row in range(2)]
    assert [item and item.text() for item in items] == ["\u2068\u05d0\u05d1…\u2069", "A title…"]
