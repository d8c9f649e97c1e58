"""The downloads under the models page: a row each, with progress, pause, resume and cancel."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app import text
from app.appearance import Appearance
from app.models.downloads_view_model import DownloadState, DownloadsViewModel
from app.models.model_words import download_words
from app.widgets.icon_button import IconButton
from app.widgets.key_frame import KeyFrame
from app.widgets.plain_label import plain_label

STEPS = 1000
EDGE = 5
MOST_ROWS = 3
"""Rows that are seen at once; more are scrolled to."""


class DownloadRow(QFrame):
    """One download. Intents: `paused`, `resumed`, `cancelled`, `put_away` and `opened(path)`."""

    paused = Signal()
    resumed = Signal()
    cancelled = Signal()
    put_away = Signal()
    opened = Signal(str)

    def __init__(self, appearance: Appearance, state: DownloadState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("download")
        self._state = state
        self._title = QLabel()
        self._title.setTextFormat(Qt.TextFormat.PlainText)
        self._words = plain_label("", "muted")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.setRange(0, STEPS)
        self.switch = IconButton(appearance, "pause", "Pause", size=32)
        self.switch.clicked.connect(self._press)
        self.cancel = IconButton(appearance, "close", "Cancel", size=32)
        self.cancel.clicked.connect(self._end)
        self.open = QPushButton(text.OPEN)
        self.open.setProperty("kind", "keep")
        self.open.clicked.connect(lambda: self.opened.emit(self._state.path))
        column = QVBoxLayout()
        column.setSpacing(4)
        for widget in (self._title, self.bar, self._words):
            column.addWidget(widget)
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 8, 12, 8)
        row.setSpacing(4)
        row.addLayout(column, 1)
        row.addSpacing(8)
        for button in (self.open, self.switch, self.cancel):
            row.addWidget(button)
        self.show_state(state)

    @property
    def words(self) -> str:
        """What it says under the title."""
        return self._words.text()

    def show_state(self, state: DownloadState) -> None:
        """Show how the download stands."""
        self._state = state
        finished = state.phase == "finished"
        ended = finished or (state.phase == "failed" and not state.is_resumable)
        words = download_words(state)
        self._title.setText(state.title)
        self._words.setText(words)
        self._words.setProperty("role", "danger" if state.phase == "failed" else "muted")
        self._words.style().polish(self._words)
        self.bar.setValue(round(STEPS * state.done / state.total) if state.total else 0)
        self.bar.setVisible(not ended)
        self.bar.setAccessibleName(f"{state.title}: {words}")
        self.open.setVisible(finished)
        self.open.setAccessibleName(f"{text.OPEN} {state.title}")
        self.switch.setVisible(not ended)
        self.switch.set_icon("pause" if state.is_active else "play")
        self.switch.set_label(f"{'Pause' if state.is_active else 'Resume'} {state.title}")
        self.cancel.set_label(f"{'Put away' if ended else 'Cancel'} {state.title}")

    @Slot()
    def _press(self) -> None:
        (self.paused if self._state.is_active else self.resumed).emit()

    @Slot()
    def _end(self) -> None:
        ended = self._state.phase == "finished" or not self._state.is_resumable
        (self.put_away if ended else self.cancelled).emit()


class DownloadsStrip(QScrollArea):
    """Shows a DownloadsViewModel; hidden while there is nothing. Intent: `opened(path)`."""

    opened = Signal(str)

    def __init__(
        self, appearance: Appearance, downloads: DownloadsViewModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("downloads")
        self.setAccessibleName("Downloads")
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._appearance = appearance
        self._downloads = downloads
        self._room = 0
        self._rows: dict[int, DownloadRow] = {}
        inner = QWidget()
        inner.setObjectName("downloadsColumn")
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(0, EDGE - 1, 0, EDGE)
        self._column.setSpacing(0)
        self.setWidget(inner)
        KeyFrame(self)
        downloads.changed.connect(self._show)
        self._fill()
        if not self._rows:  # not shown here otherwise: without a parent it would be a window
            self.hide()

    def set_room(self, height: int) -> None:
        """Take so many pixels at most, but show one download at least; the others are scrolled to."""
        self._room = height
        self._fit_height()

    def row(self, id_: int) -> DownloadRow:
        """The row of a download."""
        return self._rows[id_]

    @Slot()
    def _show(self) -> None:
        self._fill()
        self.setVisible(bool(self._rows))

    def _fill(self) -> None:
        states = {state.id: state for state in self._downloads.states}
        for id_ in self._rows.keys() - states.keys():
            row = self._rows.pop(id_)
            self._column.removeWidget(row)
            row.deleteLater()
        for id_, state in states.items():
            if id_ in self._rows:
                self._rows[id_].show_state(state)
            else:
                self._rows[id_] = self._make_row(state)
        self._fit_height()

    def _make_row(self, state: DownloadState) -> DownloadRow:
        row = DownloadRow(self._appearance, state)
        id_ = state.id
        row.paused.connect(lambda: self._downloads.pause(id_))
        row.resumed.connect(lambda: self._downloads.resume(id_))
        row.cancelled.connect(lambda: self._downloads.cancel(id_))
        row.put_away.connect(lambda: self._downloads.put_away(id_))
        row.opened.connect(self.opened)
        self._column.addWidget(row)
        return row

    def _fit_height(self) -> None:
        heights = [row.sizeHint().height() for row in self._rows.values()] or [0]
        self.setFixedHeight(max(heights[0], min(sum(heights[:MOST_ROWS]), self._room)) + 2 * EDGE)
