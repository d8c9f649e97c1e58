"""The history: cards of a span, the chart of the one that is chosen, groups compared, the latest requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Slot
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QButtonGroup, QFileDialog, QHBoxLayout, QLabel, QPushButton, QWidget

from app import text
from app.appearance import Appearance
from app.dashboard.card_button import CardButton
from app.dashboard.history_figures import CARDS, FIELDS, HistoryCard, Look, plot
from app.dashboard.history_panel import HistoryPanel
from app.dashboard.history_tables import HistoryTables
from app.dashboard.history_times import SPAN_NAMES, SPAN_PHRASES, SPAN_WORDS, SpanName
from app.dashboard.history_view_model import HistoryViewModel
from app.dashboard.live_cards import NONE, Face
from app.dashboard.pane import FigureGrid, Pane
from app.widgets.banner import Banner
from app.widgets.choice_menu import ChoiceMenu
from app.widgets.plain_label import plain_label
from app.widgets.tab_button import TabButton

FILE = "mlxr-history.csv"
EMPTY = "Nothing was asked in {phrase}. What you ask is counted here, without its words."
READING = "Reading…"
ROOM_FOR_BAR = 700
"""Pixels; in a narrower pane what is compared stands below the spans."""


class HistoryPane(Pane):
    """Shows a HistoryViewModel while it is seen, once it is `complete`d."""

    def __init__(
        self,
        appearance: Appearance,
        history: HistoryViewModel,
        title_of: Callable[[str], str],
        parent: QWidget | None = None,
    ) -> None:
        """`title_of`: the title of a chat; "" for one that is in no list."""
        super().__init__(parent)
        self.history, self._appearance, self._title_of = history, appearance, title_of
        self.banner = Banner(appearance, parent=self.content)
        self.cards = {card.key: CardButton(card, self.content) for card in CARDS}
        self.spans = {name: TabButton(said, self.content) for name, said in SPAN_WORDS.items()}
        choices = [("", "Nothing"), *FIELDS.items()]
        self.compare = ChoiceMenu(appearance, "Compare requests by", choices, "", self.content)
        self.export_button = QPushButton("Export CSV…", self.content)
        self.export_button.setToolTip("Save the requests of this time as a table, without what was said")
        self.empty = plain_label("", "muted", self.content)
        self._grid, self._group = FigureGrid(list(self.cards.values()), most=3), QButtonGroup(self)
        self._bar = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._arrange()
        self.spans[history.span].setChecked(True)
        self.cards["requests"].setChecked(True)
        for name in SPAN_NAMES:
            self._bind(name)
        self.compare.chosen.connect(self._compare)
        self.export_button.clicked.connect(self._save)
        history.exported.connect(self.banner.say)
        history.failed.connect(self._say_problem)

    def complete(self) -> None:
        """Make chart and tables, once; all in one takes longer than a frame."""
        self.panel = HistoryPanel(self._appearance, self.history, self.content)
        self.tables = HistoryTables(self.history, self._title_of, self.content)
        self.column.addWidget(self.panel, 1)
        self.column.addWidget(self.tables)
        self.column.addStretch(1)
        for button in self.cards.values():
            button.clicked.connect(self._show_chart)
        self.history.changed.connect(self.refresh)
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
        self._grid.fit(self.width())
        wide = self.width() >= ROOM_FOR_BAR
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._bar.setDirection(across if wide else down)

    @Slot()
    def refresh(self) -> None:
        """Show what the history answered."""
        look = self.history.look
        for button in self.cards.values():
            button.show_face(button.card.face(look.total) if look else Face(NONE))
        self._show_rows(look)
        self._show_chart()

    def _show_rows(self, look: Look | None) -> None:
        is_any = look is not None and look.total.requests > 0
        nothing = EMPTY.format(phrase=SPAN_PHRASES[look.name]) if look else READING
        self.empty.setText(text.sentence(self.history.problem) or nothing)
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

    def _arrange(self) -> None:
        spans, tools = QHBoxLayout(), QHBoxLayout()
        for tab in self.spans.values():
            self._group.addButton(tab)
            spans.addWidget(tab)
        spans.addStretch(1)
        self._bar.addLayout(spans, 1)
        self._bar.addLayout(tools)
        compare = QLabel("Compare by", self.content)
        compare.setProperty("role", "muted")
        tools.addWidget(compare)
        tools.addWidget(self.compare)
        tools.addStretch(1)
        tools.addWidget(self.export_button)
        self.column.addLayout(self._bar)
        self.column.addWidget(self.banner)
        self.column.addLayout(self._grid)
        self.column.addWidget(self.empty)
