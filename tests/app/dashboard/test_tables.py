"""Tables of words: what is filled in is shown, its columns wide enough, at the price of one measuring."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

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
