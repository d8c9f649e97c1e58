"""How tables look on the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QTableView,
    QTableWidget,
    QVBoxLayout,
    QWidget,
)

ROW_HEIGHT = 28


def dress(table: QTableView, name: str) -> None:
    """Rows to be read, not edited; the first column takes the room that is left."""
    table.setAccessibleName(name)
    table.setShowGrid(False)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
    table.horizontalHeader().setHighlightSections(False)
    table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    table.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    table.setTabKeyNavigation(False)


def plain_table(parent: QWidget, columns: Sequence[str], name: str) -> QTableWidget:
    """A table that fills `parent`, with these columns."""
    table = QTableWidget(0, len(columns))
    table.setHorizontalHeaderLabels(list(columns))
    dress(table, name)
    first = table.horizontalHeaderItem(0)
    if first is not None:
        first.setTextAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    column = QVBoxLayout(parent)
    column.setContentsMargins(0, 0, 0, 0)
    column.addWidget(table)
    return table


def fit_height(table: QTableWidget, most: int) -> None:
    """As high as its rows, of which at most `most` are seen at once."""
    header = table.horizontalHeader().sizeHint().height()
    table.setFixedHeight(header + ROW_HEIGHT * max(1, min(table.rowCount(), most)) + 4)
