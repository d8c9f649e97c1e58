"""The live figures: cards, the chart of the one that is chosen, and the requests that run."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer, Slot
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QScrollArea,
    QStackedLayout,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.appearance import Appearance
from app.dashboard.card_button import CardButton
from app.dashboard.chart import Chart
from app.dashboard.live_cards import CARDS, Card
from app.dashboard.live_view_model import LiveViewModel
from app.dashboard.requests_table import RequestsTable
from app.dashboard.series_table import SeriesTable
from app.dashboard.tables import dress

SIDE = 16
REFRESH_MS = 200
CHART_SECONDS = 0.5
"""Between drawings of the chart, on which less would not be seen."""

ROOM_FOR_ALL = 760


class LivePane(QScrollArea):
    """Shows a LiveViewModel, at most five times a second, while it is seen."""

    def __init__(
        self,
        appearance: Appearance,
        live: LiveViewModel,
        title_of: Callable[[str], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("dashboardPane")
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._live = live
        self._has_changed, self._drawn, self._columns = True, 0.0, 0
        self.cards = {card.key: CardButton(card) for card in CARDS}
        self.chart = Chart(appearance)
        self.samples = SeriesTable()
        self._table = QTableView()
        self._table.setModel(self.samples)
        dress(self._table, "The samples behind the chart")
        self._table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.requests = RequestsTable(title_of)
        self._title = QLabel()
        self._title.setProperty("role", "strong")
        self.table_button = QToolButton()
        self._grid = QGridLayout()
        self._chart_stack = QStackedLayout()
        self._arrange()
        self._timer = QTimer(self)
        self._timer.setInterval(REFRESH_MS)
        self._timer.timeout.connect(self._tick)
        live.changed.connect(self._note_change)
        for button in self.cards.values():
            button.clicked.connect(self.refresh)
        self.cards["decode"].setChecked(True)

    @property
    def chosen(self) -> Card:
        """Whose chart is on show."""
        return next(button.card for button in self.cards.values() if button.isChecked())

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Somebody looks."""
        super().showEvent(event)
        self._live.measure_bandwidth()
        self.refresh()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 (Qt's name)
        """Nobody looks any more."""
        super().hideEvent(event)
        self._timer.stop()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """All cards in two rows, or in a narrow window in four."""
        super().resizeEvent(event)
        self._place_cards(4 if self.width() >= ROOM_FOR_ALL else 2)

    @Slot()
    def refresh(self) -> None:
        """Show what is known now."""
        self._show_figures()
        self._show_chart()

    @Slot()
    def _note_change(self) -> None:
        self._has_changed = True

    @Slot()
    def _tick(self) -> None:
        if self._has_changed:
            self._has_changed = False
            self._show_figures()
        if time.perf_counter() - self._drawn >= CHART_SECONDS:
            self._show_chart()

    def _show_figures(self) -> None:
        figures = self._live.figures
        for button in self.cards.values():
            button.show_face(button.card.face(figures))
        self.requests.show_requests(figures.stats.requests if figures.stats else ())

    def _show_chart(self) -> None:
        card, self._drawn = self.chosen, time.perf_counter()
        points = self._live.series(card.key).points
        self._title.setText(f"{card.title}, {_unit_words(card)}")
        if self.table_button.isChecked():
            self.samples.show_series(card, points, self._drawn)
        else:
            self.chart.show_series(card, points, self._drawn)

    @Slot(bool)
    def _show_table(self, is_table: bool) -> None:
        self._chart_stack.setCurrentIndex(int(is_table))
        self.refresh()

    def _place_cards(self, columns: int) -> None:
        if self._columns == columns:
            return
        self._columns = columns
        for place, button in enumerate(self.cards.values()):
            self._grid.addWidget(button, *divmod(place, columns))
        for column in range(4):
            self._grid.setColumnStretch(column, int(column < columns))

    def _arrange(self) -> None:
        self._grid.setSpacing(8)
        self._place_cards(4)
        self.table_button.setText("Table")
        self.table_button.setToolTip("Show the samples behind the chart as a table")
        self.table_button.setProperty("kind", "tab")
        self.table_button.setCheckable(True)
        self.table_button.toggled.connect(self._show_table)
        head = QHBoxLayout()
        head.addWidget(self._title, 1)
        head.addWidget(self.table_button)
        self._chart_stack.addWidget(self.chart)
        self._chart_stack.addWidget(self._table)
        frame = QFrame()
        frame.setObjectName("panel")
        inside = QVBoxLayout(frame)
        inside.setContentsMargins(12, 8, 12, 4)
        inside.addLayout(head)
        inside.addLayout(self._chart_stack, 1)
        running = QLabel("Running now")
        running.setProperty("role", "section")
        column = QWidget()
        column.setObjectName("dashboardColumn")
        inner = QVBoxLayout(column)
        inner.setContentsMargins(SIDE, 4, SIDE, SIDE)
        inner.setSpacing(10)
        inner.addLayout(self._grid)
        inner.addWidget(frame, 1)
        inner.addWidget(running)
        inner.addWidget(self.requests)
        self.setWidget(column)


def _unit_words(card: Card) -> str:
    units = {"tok/s": "tokens a second", "ms": "milliseconds", "%": "percent", "bytes": "bytes"}
    return units.get(card.unit, "answers")
