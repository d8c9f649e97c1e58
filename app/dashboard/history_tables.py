"""The history's tables: groups side by side, and the latest requests."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.dashboard.history_figures import CARDS, FIELDS, LATEST_COLUMNS, Look, group_rows, latest_rows
from app.dashboard.history_view_model import HistoryViewModel
from app.dashboard.tables import fill, plain_table

TitleOf = Callable[[str], str]
MOST_ROWS = 10
WORDS = (0, 1, 2, 8)
CHAT, OUTCOME = 2, 8


class HistoryTables(QWidget):
    """Shows a Look of a HistoryViewModel in rows."""

    def __init__(self, history: HistoryViewModel, title_of: TitleOf, parent: QWidget | None = None) -> None:
        """`title_of`: the title of a chat; "" for one that is in no list."""
        super().__init__(parent)
        self._history, self._title_of = history, title_of
        holder, self._compared = QWidget(), QWidget()
        self.latest = plain_table(holder, LATEST_COLUMNS, "Latest requests", words=WORDS, wide=CHAT)
        columns = ("", *(card.title for card in CARDS))
        self.groups = plain_table(self._compared, columns, "Requests compared")
        self._by = _section("")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        for item in (self._by, self._compared, _section("Latest requests"), holder):
            column.addWidget(item)

    def show_look(self, look: Look) -> None:
        """Show this."""
        self._by.setText(f"Compared by: {FIELDS[look.by]}" if look.by else "")
        self._by.setVisible(look.by is not None)
        self._compared.setVisible(look.by is not None)
        if look.by is not None:
            fill(self.groups, group_rows(look.groups, self._history.words), MOST_ROWS)
        rows = latest_rows(look.latest, self._history.now, self._history.name_of, self._title_of)
        fill(self.latest, rows, MOST_ROWS)
        for place, request in enumerate(look.latest):
            if item := self.latest.item(place, OUTCOME):
                item.setToolTip(request.error)


def _section(words: str) -> QLabel:
    label = QLabel(words)
    label.setProperty("role", "section")
    return label
