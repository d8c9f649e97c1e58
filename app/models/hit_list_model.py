"""The rows of models that can be had, for Qt's list view: the short list, or what a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, Qt, Signal

from app.widgets.index import Index

LISTED_ROLE = Qt.ItemDataRole.UserRole + 1
"""The Listed of a row."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A repository in a list.

    Attributes:
        repo: its id.
        line: what it is, in a line.
        title: its name for people; "" takes that of the id.
        note: what it is good for, in a line; "" where nobody says.
        label: a word that stands out, such as "Gated"; "" for none.
        unsupported: why it does not run here; "" where it may.
    """

    repo: str
    line: str
    title: str = ""
    note: str = ""
    label: str = ""
    unsupported: str = ""

    @property
    def owner(self) -> str:
        """Who has published it."""
        return self.repo.rpartition("/")[0]

    @property
    def name(self) -> str:
        """What it is called in the list."""
        return self.title or self.repo.rpartition("/")[2]


class HitListModel(QAbstractListModel):
    """Shows repositories. `more_wanted` when the end comes into view, for as long as there is more."""

    more_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Listed] = []
        self._has_more = False

    def restart(self, rows: Sequence[Listed] = ()) -> None:
        """Replace the rows."""
        self.beginResetModel()
        self._rows = list(rows)
        self._has_more = False
        self.endResetModel()

    def grow(self, rows: Sequence[Listed]) -> None:
        """Add rows at the end: views keep their place."""
        if not rows:
            return
        first = len(self._rows)
        self.beginInsertRows(QModelIndex(), first, first + len(rows) - 1)
        self._rows += rows
        self.endInsertRows()

    def set_has_more(self, has_more: bool) -> None:
        """Whether more can be asked for."""
        self._has_more = has_more

    def listed(self, index: Index) -> Listed:
        """The row at `index`."""
        return self._rows[index.row()]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 (Qt's signature)
        """How many rows there are."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Id of a row, and words about it."""
        row = self._rows[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return row.repo
            case Qt.ItemDataRole.ToolTipRole:
                return "\n".join(part for part in (row.repo, row.note, row.line, row.unsupported) if part)
            case Qt.ItemDataRole.AccessibleTextRole:
                told = (row.title, row.repo, row.label, row.note, row.line, row.unsupported)
                return ", ".join(part for part in told if part)
            case _ if role == LISTED_ROLE:
                return row
            case _:
                return None

    def canFetchMore(self, parent: Index) -> bool:  # noqa: N802 (Qt's name)
        """Whether more can be asked for."""
        return not parent.isValid() and self._has_more

    def fetchMore(self, parent: Index) -> None:  # noqa: N802 (Qt's name)
        """Ask for more."""
        if self.canFetchMore(parent):
            self.more_wanted.emit()
