"""The history's tables: groups side by side, and the latest requests."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHeaderView, QTableWidget, QVBoxLayout, QWidget

from app.dashboard.history_figures import CARDS, FIELDS, LATEST_COLUMNS, Look, group_rows, latest_rows
from app.dashboard.history_view_model import HistoryViewModel
from app.dashboard.pane import Section
from app.dashboard.tables import fill, plain_table
from app.text import untagged

TitleOf = Callable[[str], str]
MOST_ROWS = 10
WORDS = (0, 1, 2, 8)
MODEL, CHAT, PROMPT, OUTCOME = 1, 2, 3, 8
ROOM_FOR_CHATS = 800
"""Pixels; in a narrower window the latest requests are shown without chats and prompts."""


class HistoryTables(QWidget):
    """Shows a Look of a HistoryViewModel in rows."""

    def __init__(self, history: HistoryViewModel, title_of: TitleOf, parent: QWidget | None = None) -> None:
        """`title_of`: the title of a chat; "" for one that is in no list."""
        super().__init__(parent)
        self._history, self._title_of = history, title_of
        self._compared, latest = Section("", self), Section("Latest requests", self)
        self.latest = plain_table(latest, LATEST_COLUMNS, "Latest requests", words=WORDS, wide=CHAT)
        columns = ("", *(card.title for card in CARDS))
        self.groups = plain_table(self._compared, columns, "Requests compared")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        for section, table in ((self._compared, self.groups), (latest, self.latest)):
            section.column.addWidget(table)
            column.addWidget(section)

    def show_look(self, look: Look) -> None:
        """Show this."""
        self._compared.heading.setText(f"Compared by: {FIELDS[look.by]}" if look.by else "")
        self._compared.setVisible(look.by is not None)
        if look.by is not None:
            fill(self.groups, group_rows(look.groups, self._history.words), MOST_ROWS)
        rows = latest_rows(look.latest, self._history.now, self._history.name_of, self._title_of)
        fill(self.latest, rows, MOST_ROWS)
        for place, request in enumerate(look.latest):
            _explain(self.latest, place, OUTCOME, request.error)
            _explain(self.latest, place, MODEL, rows[place][MODEL])
        for place, group in enumerate(look.groups):
            _explain(self.groups, place, 0, self._history.words(group.values[0]))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """In a narrow window the columns that are needed least give way."""
        super().resizeEvent(event)
        is_narrow = self.width() < ROOM_FOR_CHATS
        for column in (CHAT, PROMPT):
            self.latest.setColumnHidden(column, is_narrow)
        mode = QHeaderView.ResizeMode.Stretch if is_narrow else QHeaderView.ResizeMode.ResizeToContents
        self.latest.horizontalHeader().setSectionResizeMode(MODEL, mode)


def _explain(table: QTableWidget, row: int, column: int, words: str) -> None:
    """Say this on hover: a cell may be cut off, or not be all."""
    if item := table.item(row, column):
        item.setToolTip(untagged(words))
