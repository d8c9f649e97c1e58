"""The live figures: cards, the chart of the one that is chosen, and the requests that run."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QTimer, Slot
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHeaderView, QTableView, QWidget

from app.appearance import Appearance
from app.dashboard.card_button import CardButton
from app.dashboard.chart import Chart
from app.dashboard.chart_panel import ChartPanel
from app.dashboard.live_cards import CARDS, Card
from app.dashboard.live_view_model import LiveViewModel
from app.dashboard.pane import FigureGrid, Pane, Section
from app.dashboard.requests_table import RequestsTable
from app.dashboard.series_table import SeriesTable
from app.dashboard.tables import dress

REFRESH_MS = 250
CHART_SECONDS = 0.5
"""Between drawings of the chart, on which less would not be seen."""


class LivePane(Pane):
    """Shows a LiveViewModel, at most four times a second, while it is seen."""

    def __init__(
        self,
        appearance: Appearance,
        live: LiveViewModel,
        title_of: Callable[[str], str],
        name_of: Callable[[str], str],
        parent: QWidget | None = None,
    ) -> None:
        """`title_of`: a chat's title; `name_of`: what people call a model."""
        super().__init__(parent)
        self._live, self._name_of = live, name_of
        self._has_changed, self._drawn = True, 0.0
        self.cards = {card.key: CardButton(card, self.content) for card in CARDS}
        self._grid = FigureGrid(list(self.cards.values()), most=4)
        self.panel = ChartPanel(self.content)
        self.chart = Chart(appearance, self.panel)
        self.samples = SeriesTable()
        self._table = QTableView(self.panel)
        self._table.setModel(self.samples)
        dress(self._table, "The samples behind the chart")
        self._table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        running = Section("Running now", self.content)
        self.requests = RequestsTable(title_of, running)
        self._arrange(running)
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
        self._grid.fit(self.width())

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
        self.requests.show_requests(
            [
                ("" if model == self._live.shown else self._name_of(model), request)
                for model, request in self._live.requests
            ]
        )

    def _show_chart(self) -> None:
        card, self._drawn = self.chosen, time.perf_counter()
        points = self._live.series(card.key).points
        self.panel.title.setText(f"{card.title}, {_unit_words(card)}")
        if self.panel.is_table:
            self.samples.show_series(card, points, self._drawn)
        else:
            self.chart.show_series(card, points, self._drawn)

    def _arrange(self, running: Section) -> None:
        self.panel.hold(self.chart, self._table)
        self.panel.table_button.toggled.connect(self.refresh)
        running.column.addWidget(self.requests)
        self.column.addLayout(self._grid)
        self.column.addWidget(self.panel, 1)
        self.column.addWidget(running)


def _unit_words(card: Card) -> str:
    units = {"tok/s": "tokens a second", "ms": "milliseconds", "%": "percent", "bytes": "bytes"}
    return units.get(card.unit, "answers")
