"""The requests that run, one a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTableWidget, QTableWidgetItem, QWidget

from app.dashboard.axis import number_words
from app.dashboard.live_cards import NONE, time_words
from app.dashboard.tables import fit_height, plain_table
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
        self.show_requests(())

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """What it says."""
        return self._shown

    def show_requests(self, requests: Sequence[RequestStats]) -> None:
        """Show these."""
        rows = [self._row(request) for request in requests] or [(NOTHING, *[""] * (len(COLUMNS) - 1))]
        if rows == self._shown:
            return
        if len(rows) != len(self._shown):
            self.table.setRowCount(len(rows))
            fit_height(self.table, most=6)
        self._shown = rows
        for place, row in enumerate(rows):
            for column, words in enumerate(row):
                self._put(place, column, words)

    def _put(self, row: int, column: int, words: str) -> None:
        item = self.table.item(row, column)
        if item is None:
            item = QTableWidgetItem()
            side = Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft
            item.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)
            self.table.setItem(row, column, item)
        if item.text() != words:
            item.setText(words)

    def _row(self, request: RequestStats) -> tuple[str, ...]:
        return (
            self._title_of(request.chat) or ("A new chat" if request.chat else "A program"),
            f"{request.done_tokens:,} of {request.prompt_tokens:,}",
            f"{request.generated_tokens:,}",
            " ".join(time_words(request.ttft_ms)) if request.ttft_ms else NONE,
            number_words(request.prefill_tps) if request.prefill_tps else NONE,
            number_words(request.decode_tps) if request.decode_tps else NONE,
        )
