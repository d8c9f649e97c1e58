"""How tables look on the dashboard."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QSizePolicy,
    QTableView,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from app.text import isolated, untagged

ROW_HEIGHT = 28
LONG = 12
"""Letters from which on a cell may be cut off in a narrow window, and says all of itself on hover."""

_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def dress(table: QTableView, name: str) -> None:
    """Rows to be read, not edited; the first column takes the room that is left."""
    table.setAccessibleName(name)
    table.setShowGrid(False)
    table.setWordWrap(False)  # of what is cut off, as much is seen as there is room for
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
    table.horizontalHeader().setHighlightSections(False)
    table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    table.horizontalHeader().setDefaultAlignment(_RIGHT)
    table.setTabKeyNavigation(False)


def plain_table(
    parent: QWidget, columns: Sequence[str], name: str, words: Collection[int] = (0,), wide: int = 0
) -> QTableWidget:
    """A table of words: `words` are the columns that are no numbers, `wide` takes what is left."""
    table = QTableWidget(0, len(columns), parent)
    for place, title in enumerate(columns):
        head = QTableWidgetItem(title)
        head.setTextAlignment(_LEFT if place in words else _RIGHT)
        table.setHorizontalHeaderItem(place, head)
    dress(table, name)  # not before: each head would have all columns measured
    table.horizontalHeader().setSectionResizeMode(wide, QHeaderView.ResizeMode.Stretch)
    table.setSizeAdjustPolicy(QAbstractItemView.SizeAdjustPolicy.AdjustToContents)
    table.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    return table


def fill(table: QTableWidget, rows: Sequence[Sequence[str]], most: int, grows: bool = False) -> None:
    """Show these words, aligned as their columns' heads; of more than `most` rows some are scrolled to.

    `grows`: more than `most` are seen where there is room.
    """
    if table.rowCount() != len(rows) or not rows:
        table.setRowCount(len(rows))
        table.setFocusPolicy(Qt.FocusPolicy.StrongFocus if rows else Qt.FocusPolicy.NoFocus)
        table.setMinimumHeight(_height(table, min(len(rows), most)))
        table.setMaximumHeight(_height(table, len(rows)) if grows else table.minimumHeight())
    model = table.model()
    with QSignalBlocker(model):  # each word would have all columns measured
        for place, row in enumerate(rows):
            for column, words in enumerate(row):
                write(table, place, column, words)
    if rows:
        model.dataChanged.emit(model.index(0, 0), model.index(len(rows) - 1, table.columnCount() - 1))


def write(table: QTableWidget, place: int, column: int, words: str) -> None:
    """Let a cell say this."""
    item = table.item(place, column)
    if item is None:
        item = QTableWidgetItem()
        head = table.horizontalHeaderItem(column)
        item.setTextAlignment(Qt.AlignmentFlag(head.textAlignment()) if head else _LEFT)
        table.setItem(place, column, item)
    shown = isolated(words)
    if item.text() != shown:
        item.setText(shown)
        item.setToolTip(untagged(words) if len(words) > LONG else "")


def _height(table: QTableWidget, rows: int) -> int:
    return table.horizontalHeader().sizeHint().height() + ROW_HEIGHT * max(1, rows) + 4
