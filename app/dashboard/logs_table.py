"""The log's entries as a table's model, and one of them in full."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from PySide6.QtCore import QAbstractTableModel, QModelIndex, Qt
from PySide6.QtGui import QColor

from app.appearance import Appearance
from app.dashboard.history_times import when_words
from app.dashboard.live_cards import NONE
from app.log_reader import Entry
from app.widgets.index import Index

COLUMNS = ("When", "Level", "Part", "What")
GRAVE = ("error", "critical")
TOP_LEFT = QModelIndex()


class LogsTable(QAbstractTableModel):
    """A row for each entry, the newest last. Rows stay where they are when others come behind them."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self._entries: Sequence[Entry] = ()
        self._now = 0.0

    @property
    def entries(self) -> Sequence[Entry]:
        """What is on show."""
        return self._entries

    def show_entries(self, entries: Sequence[Entry], now: float) -> None:
        """Show these as they are at `now`, in seconds since the epoch."""
        self._now = now
        gone = _gone(self._entries, entries)
        if gone is None:
            self.beginResetModel()
            self._entries = entries
            self.endResetModel()
            return
        if gone:
            self.beginRemoveRows(TOP_LEFT, 0, gone - 1)
            self._entries = self._entries[gone:]
            self.endRemoveRows()
        if len(entries) > len(self._entries):
            self.beginInsertRows(TOP_LEFT, len(self._entries), len(entries) - 1)
            self._entries = entries
            self.endInsertRows()

    def rowCount(self, parent: Index = TOP_LEFT) -> int:  # noqa: N802 (Qt's name)
        """Entries."""
        return 0 if parent.isValid() else len(self._entries)

    def columnCount(self, parent: Index = TOP_LEFT) -> int:  # noqa: N802 (Qt's name)
        """As COLUMNS."""
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Words of an entry; grave ones have the colour of danger."""
        entry = self._entries[index.row()]
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == 1:
            theme = self._appearance.theme
            return QColor(theme.danger if entry.level in GRAVE else theme.text)
        if role == Qt.ItemDataRole.DisplayRole:
            first = str(entry.words).strip().partition("\n")[0]
            return (time_words(entry, self._now), str(entry.level), str(entry.part), first)[index.column()]
        return None

    def headerData(  # noqa: N802 (Qt's name)
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Names of the columns."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        return COLUMNS[section] if role == Qt.ItemDataRole.DisplayRole else None


def time_words(entry: Entry, now: float) -> str:
    """When it was, by this machine's clock; as it stands where that is no time."""
    try:
        return when_words(datetime.fromisoformat(entry.time).timestamp(), now)
    except (TypeError, ValueError, OverflowError):
        return str(entry.time) or NONE


def full_words(entry: Entry, now: float) -> str:
    """All of an entry."""
    head = f"{time_words(entry, now)} · {entry.level}"
    where = f"{entry.part}, thread {entry.thread} of process {entry.process}" if entry.part else ""
    return "\n".join(filter(None, (head, where, str(entry.words), str(entry.trace)))).rstrip()


def _gone(before: Sequence[Entry], now: Sequence[Entry]) -> int | None:
    """How many rows at the top went, where those that follow stayed and begin `now`; None elsewhere."""
    return next(
        (gone for gone in range(len(before)) if before[gone:] == now[: len(before) - gone]),
        None,
    )
