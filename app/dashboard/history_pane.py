"""The history: cards of a span, the chart of the one that is chosen, groups compared, the latest requests."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Slot
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import text
from app.appearance import Appearance
from app.dashboard.card_button import CardButton
from app.dashboard.history_figures import CARDS, FIELDS, HistoryCard, Look, plot
from app.dashboard.history_panel import HistoryPanel
from app.dashboard.history_tables import HistoryTables
from app.dashboard.history_times import SPAN_NAMES, SPAN_PHRASES, SPAN_WORDS, SpanName
from app.dashboard.history_view_model import HistoryViewModel
from app.dashboard.live_pane import ROOM_FOR_ALL, SIDE
from app.history.records import Figures
from app.widgets.banner import Banner
from app.widgets.choice_menu import ChoiceMenu

FILE = "mlxr-history.csv"
EMPTY = "Nothing was asked in {phrase}. What you ask is counted here, without its words."
READING = "Reading…"


class HistoryPane(QScrollArea):
    """Shows a HistoryViewModel while it is seen."""

    def __init__(
        self,
        appearance: Appearance,
        history: HistoryViewModel,
        panel: HistoryPanel,
        tables: HistoryTables,
        parent: QWidget | None = None,
    ) -> None:
        """`panel` and `tables` show the same history; the pane owns them."""
        super().__init__(parent)
        self.setObjectName("dashboardPane")
        self.setWidgetResizable(True)
        self.history = history
        self.banner = Banner(appearance)
        self.cards = {card.key: CardButton(card) for card in CARDS}
        self.spans = {name: _tab(words) for name, words in SPAN_WORDS.items()}
        choices = [("", "Nothing"), *FIELDS.items()]
        self.compare = ChoiceMenu(appearance, "Compare requests by", choices, "")
        self.export_button = QPushButton("Export CSV…")
        self.export_button.setToolTip("Save the requests of this time as a table, without what was said")
        self.empty = QLabel()
        self.panel, self.tables = panel, tables
        self._grid, self._group = QGridLayout(), QButtonGroup(self)
        self._arrange()
        self.spans[history.span].setChecked(True)
        self.cards["requests"].setChecked(True)
        for name in SPAN_NAMES:
            self._bind(name)
        for button in self.cards.values():
            button.clicked.connect(self._show_chart)
        self.compare.chosen.connect(self._compare)
        self.export_button.clicked.connect(self._save)
        history.changed.connect(self.refresh)
        history.exported.connect(self.banner.say)
        history.failed.connect(self._say_problem)
        self.refresh()

    @property
    def chosen(self) -> HistoryCard:
        """Whose chart is on show."""
        return next(button.card for button in self.cards.values() if button.isChecked())

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Somebody looks."""
        super().showEvent(event)
        self.history.show()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 (Qt's name)
        """Nobody looks any more."""
        super().hideEvent(event)
        self.history.hide()
        self.banner.hide()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """All cards in two rows, or in a narrow window in three."""
        super().resizeEvent(event)
        self._place_cards(3 if self.width() >= ROOM_FOR_ALL else 2)

    @Slot()
    def refresh(self) -> None:
        """Show what the history answered."""
        look = self.history.look
        total = look.total if look else Figures()
        for button in self.cards.values():
            button.show_face(button.card.face(total))
        self._show_rows(look)
        self._show_chart()

    def _show_rows(self, look: Look | None) -> None:
        is_any = look is not None and look.total.requests > 0
        self.empty.setText(EMPTY.format(phrase=SPAN_PHRASES[look.name]) if look else READING)
        self.empty.setVisible(not is_any)
        self.panel.setVisible(is_any)
        self.tables.setVisible(is_any)
        self.export_button.setEnabled(is_any)
        if look is not None and is_any:
            self.tables.show_look(look)

    @Slot()
    def _show_chart(self) -> None:
        look = self.history.look
        if look is not None:
            names = [self.history.words(line.value) for line in look.lines]
            self.panel.show_look(look, plot(self.chosen, look, names))

    def _bind(self, name: SpanName) -> None:
        self.spans[name].clicked.connect(lambda: self._choose_span(name))

    def _choose_span(self, name: SpanName) -> None:
        self.banner.hide()
        self.history.choose_span(name)

    @Slot(str)
    def _compare(self, name: str) -> None:
        self.history.compare(next((field for field in FIELDS if field == name), None))

    @Slot()
    def _save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Export CSV", FILE, "CSV (*.csv)")
        if path:
            self.history.export(Path(path).with_suffix(".csv"))

    @Slot(str)
    def _say_problem(self, words: str) -> None:
        self.banner.say(text.sentence(words))

    def _place_cards(self, columns: int) -> None:
        if self._grid.columnCount() == columns and self._grid.count():
            return
        for place, button in enumerate(self.cards.values()):
            self._grid.addWidget(button, *divmod(place, columns))
        for column in range(3):
            self._grid.setColumnStretch(column, int(column < columns))

    def _arrange(self) -> None:
        self._grid.setSpacing(8)
        self._place_cards(3)
        self.empty.setProperty("role", "muted")
        self.empty.setWordWrap(True)
        bar = QHBoxLayout()
        for tab in self.spans.values():
            self._group.addButton(tab)
            bar.addWidget(tab)
        bar.addStretch(1)
        compare = QLabel("Compare by")
        compare.setProperty("role", "muted")
        bar.addWidget(compare)
        bar.addWidget(self.compare)
        bar.addWidget(self.export_button)
        column = QWidget()
        column.setObjectName("dashboardColumn")
        inner = QVBoxLayout(column)
        inner.setContentsMargins(SIDE, 4, SIDE, SIDE)
        inner.setSpacing(10)
        inner.addLayout(bar)
        inner.addWidget(self.banner)
        inner.addLayout(self._grid)
        inner.addWidget(self.empty)
        inner.addWidget(self.panel, 1)
        inner.addWidget(self.tables)
        inner.addStretch(1)
        self.setWidget(column)


def _tab(words: str) -> QToolButton:
    tab = QToolButton()
    tab.setText(words)
    tab.setProperty("kind", "tab")
    tab.setCheckable(True)
    return tab
