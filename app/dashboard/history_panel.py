"""The chart of a card of the history, the table behind it, and whose lines are compared."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QStackedLayout, QToolButton, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.dashboard.history_chart import HistoryChart
from app.dashboard.history_figures import Look, Plot, plot_rows
from app.dashboard.history_view_model import HistoryViewModel
from app.dashboard.tables import fill, plain_table
from app.widgets.choice_menu import ChoiceMenu

UNITS = {"tok/s": "tokens a second", "ms": "milliseconds", "%": "percent"}
SIDES = ("First", "Second")
MOST_ROWS = 8
ONE_ALONE = "There is only one in this time: nothing to compare"


class HistoryPanel(QFrame):
    """Shows a Look of a HistoryViewModel as one Plot."""

    def __init__(
        self, appearance: Appearance, history: HistoryViewModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("panel")
        self._appearance, self._history = appearance, history
        self._choices: list[tuple[str, str]] = []
        self._plot: Plot | None = None
        self.sides: list[ChoiceMenu] = []
        self.chart = HistoryChart(appearance)
        holder = QWidget()
        self.table = plain_table(holder, ("When", "", ""), "The values behind the chart")
        self._title, self.note = QLabel(), QLabel()
        self._title.setProperty("role", "strong")
        self.note.setProperty("role", "muted")
        self.table_button = QToolButton()
        self.table_button.setText("Table")
        self.table_button.setToolTip("Show the values behind the chart as a table")
        self.table_button.setProperty("kind", "tab")
        self.table_button.setCheckable(True)
        self.table_button.toggled.connect(self._show_table)
        self._head, self._stack = QHBoxLayout(), QStackedLayout()
        self._head.addWidget(self._title)
        self._head.addWidget(self.note)
        self._head.addStretch(1)
        self._head.addWidget(self.table_button)
        self._stack.addWidget(self.chart)
        self._stack.addWidget(holder)
        inside = QVBoxLayout(self)
        inside.setContentsMargins(12, 8, 12, 4)
        inside.addLayout(self._head)
        inside.addLayout(self._stack, 1)

    def show_look(self, look: Look, plot: Plot) -> None:
        """Show this."""
        self._plot = plot
        unit = UNITS.get(plot.unit, "")
        self._title.setText(f"{plot.title}, {unit}" if unit else plot.title)
        self._offer(look)
        self.chart.show_plot(plot)
        if self.table_button.isChecked():
            self._fill(plot)

    def _fill(self, plot: Plot) -> None:
        for column in (1, 2):
            is_used = column <= len(plot.names)
            self.table.setColumnHidden(column, not is_used)
            if head := self.table.horizontalHeaderItem(column):
                head.setText(plot.names[column - 1] if is_used else "")
        rows = plot_rows(plot)
        fill(self.table, [(*row, "")[:3] for row in rows], MOST_ROWS)

    def _offer(self, look: Look) -> None:
        """Menus of the groups, where there are three or more; a word where there is nothing to compare."""
        self.note.setText(ONE_ALONE if len(look.groups) == 1 else "")
        choices = [(str(place), self._history.words(g.values[0])) for place, g in enumerate(look.groups)]
        if len(choices) < 3:
            choices = []
        known = [group.values[0] for group in look.groups]
        places = [str(known.index(line.value)) for line in look.lines] if choices else []
        if choices == self._choices and places == [side.current for side in self.sides]:
            return
        self._choices = choices
        for side in self.sides:
            self._head.removeWidget(side)
            side.deleteLater()
        self.sides = [
            ChoiceMenu(self._appearance, f"{SIDES[line]} line", choices, place)
            for line, place in enumerate(places)
        ]
        for line, side in enumerate(self.sides):
            side.chosen.connect(lambda place, line=line: self._history.choose(line, known[int(place)]))
            self._head.insertWidget(self._head.count() - 1, side)

    @Slot(bool)
    def _show_table(self, is_table: bool) -> None:
        self._stack.setCurrentIndex(int(is_table))
        if is_table and self._plot is not None:
            self._fill(self._plot)
