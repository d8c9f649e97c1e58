"""The table of requests that run: its cells are what Stats said, and wide enough for it."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QTableWidgetItem
from pytestqt.qtbot import QtBot

from app.dashboard.requests_table import COLUMNS, RequestsTable
from engine import RequestStats

FIRST = RequestStats("a", "chat", 100, 100, 9, 250.0, 400.0, 12.0)
LATER = RequestStats("a", "chat", 100, 100, 1234567, 250.0, 400.0, 98765.0)
OTHER = RequestStats("b", "", 30000, 128, 0, 0.0, 0.0, 0.0)


@pytest.fixture
def table(qtbot: QtBot) -> RequestsTable:
    made = RequestsTable(lambda chat: {"chat": "What is a page?"}.get(chat, ""))
    qtbot.addWidget(made)
    made.setStyleSheet("QHeaderView::section { padding: 4px 24px; font-weight: 600; }")
    made.resize(1000, 200)
    made.show()
    qtbot.waitExposed(made)
    return made


def cells(table: RequestsTable) -> list[tuple[str, ...]]:
    rows = range(table.table.rowCount())
    return [tuple(_item(table, row, column).text() for column in range(len(COLUMNS))) for row in rows]


def _item(table: RequestsTable, row: int, column: int) -> QTableWidgetItem:
    item = table.table.item(row, column)
    assert item is not None
    return item


def test_cells_are_what_was_said_and_are_not_cut(table: RequestsTable) -> None:
    first = ("What is a page?", "100 of 100", "9", "250 ms", "400", "12")
    later = ("What is a page?", "100 of 100", "1,234,567", "250 ms", "400", "98,765")
    other = ("A program", "128 of 30,000", "0", "–", "–", "–")
    nothing = ("Nothing runs", "", "", "", "", "")
    for requests, rows in (
        ((), [nothing]),
        ((("", FIRST),), [first]),
        ((("", LATER),), [later]),
        ((("", LATER), ("", OTHER)), [later, other]),
        ((("", OTHER), ("Large", LATER)), [other, ("Large: What is a page?", *later[1:])]),
        ((("", OTHER),), [other]),
        ((), [nothing]),
    ):
        table.show_requests(requests)
        assert cells(table) == table.rows == rows
        view = table.table
        for column in range(len(COLUMNS)):
            assert view.columnWidth(column) >= view.sizeHintForColumn(column)
            assert view.columnWidth(column) >= view.horizontalHeader().sectionSizeHint(column)
        assert sum(map(view.columnWidth, range(len(COLUMNS)))) == view.viewport().width()
