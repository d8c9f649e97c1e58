"""The requests that run, one a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QVBoxLayout, QWidget

from app.dashboard.axis import number_words
from app.dashboard.live_cards import NONE, time_words
from app.dashboard.tables import fill, plain_table, write
from engine import RequestStats

COLUMNS = ("Chat", "Prompt read", "Written", "First token", "Prefill tok/s", "Decode tok/s")
NOTHING = "Nothing runs"


class RequestsTable(QWidget):
    """Shows what Stats says of each running request."""

    def __init__(self, title_of: Callable[[str], str], parent: QWidget | None = None) -> None:
        """`title_of`: the title of a chat; "" for one that is in no list."""
        super().__init__(parent)
        self._title_of = title_of
        self._shown: list[tuple[str, ...]] = []
        self.table: QTableWidget = plain_table(self, COLUMNS, "Requests that run")
        self.table.setSizeAdjustPolicy(QAbstractItemView.SizeAdjustPolicy.AdjustIgnored)
        self.table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self._widths = [0] * len(COLUMNS)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.table)
        self.show_requests(())

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Heads are not cut either: how wide they are is known once the window has its style."""
        super().showEvent(event)
        for column in range(1, len(COLUMNS)):
            self.table.resizeColumnToContents(column)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """What it says."""
        return self._shown

    def show_requests(self, requests: Sequence[tuple[str, RequestStats]]) -> None:
        """Show these, each with the name of its model: "" for the model that the figures are of."""
        rows = [self._row(model, request) for model, request in requests] or [
            (NOTHING, *[""] * (len(COLUMNS) - 1))
        ]
        if rows == self._shown:
            return
        before, self._shown = self._shown, rows
        if len(rows) != len(before):
            fill(self.table, rows, most=6)
            self._widths = [0] * len(COLUMNS)
            before = [("",) * len(COLUMNS)] * len(rows)
        for place, (old, new) in enumerate(zip(before, rows, strict=True)):
            for column, words in enumerate(new):
                if words != old[column]:
                    write(self.table, place, column, words)
                    self._make_room(column, words)

    def _make_room(self, column: int, words: str) -> None:
        """Columns grow with their words; they are not measured anew, nor narrower, with each number."""
        width = self.table.fontMetrics().horizontalAdvance(words)
        if column and width > self._widths[column]:
            self._widths[column] = width
            self.table.resizeColumnToContents(column)

    def _row(self, model: str, request: RequestStats) -> tuple[str, ...]:
        title = self._title_of(request.chat) or ("A new chat" if request.chat else "A program")
        return (
            f"{model}: {title}" if model else title,
            f"{request.done_tokens:,} of {request.prompt_tokens:,}",
            f"{request.generated_tokens:,}",
            " ".join(time_words(request.ttft_ms)) if request.ttft_ms else NONE,
            number_words(request.prefill_tps) if request.prefill_tps else NONE,
            number_words(request.decode_tps) if request.decode_tps else NONE,
        )
