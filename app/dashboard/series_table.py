"""The samples behind a chart as a table: for screen readers, and for who wants the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QAbstractTableModel, QModelIndex, Qt

from app.dashboard.live_cards import Card, value_words
from app.dashboard.series import Point
from app.widgets.index import Index


class SeriesTable(QAbstractTableModel):
    """A row for each sample, the latest first: how many seconds ago it was, then a column for each line."""

    def __init__(self) -> None:
        super().__init__()
        self._card: Card | None = None
        self._points: Sequence[Point] = ()
        self._now = 0.0

    def show_series(self, card: Card, points: Sequence[Point], now: float) -> None:
        """Show `points`, samples of the card's lines, as they are at `now`, in seconds."""
        self.beginResetModel()
        self._card, self._now = card, now
        self._points = [point for point in reversed(points) if any(v is not None for v in point.values)]
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 (Qt's)
        """Samples."""
        return 0 if parent.isValid() else len(self._points)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 (Qt's)
        """The time and the lines."""
        return 0 if parent.isValid() or self._card is None else 1 + len(self._card.lines)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A time or a value, in words."""
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role != Qt.ItemDataRole.DisplayRole or self._card is None:
            return None
        point = self._points[index.row()]
        if index.column() == 0:
            return f"{max(0.0, self._now - point.at):.1f} s"
        return value_words(point.values[index.column() - 1], self._card.unit)

    def headerData(  # noqa: N802 (Qt's name)
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Names of the lines."""
        if role != Qt.ItemDataRole.DisplayRole or self._card is None:
            return None
        if orientation == Qt.Orientation.Vertical:
            return str(section + 1)
        return "Ago" if section == 0 else self._card.lines[section - 1]
