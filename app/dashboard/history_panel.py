"""The chart of a card of the history, the table behind it, and whose lines are compared."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QLabel, QWidget

from app.appearance import Appearance
from app.dashboard.chart_panel import ChartPanel
from app.dashboard.history_chart import HistoryChart
from app.dashboard.history_figures import Look, Plot, plot_rows
from app.dashboard.history_view_model import HistoryViewModel
from app.dashboard.tables import fill, plain_table
from app.widgets.choice_menu import ChoiceMenu

UNITS = {"tok/s": "tokens a second", "ms": "milliseconds", "%": "percent"}
SIDES = ("First", "Second")
MOST_ROWS = 8
ONE_ALONE = "There is only one in this time: nothing to compare"


class HistoryPanel(ChartPanel):
    """Shows a Look of a HistoryViewModel as one Plot."""

    def __init__(
        self, appearance: Appearance, history: HistoryViewModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._appearance, self._history = appearance, history
        self._choices: list[tuple[str, str]] = []
        self._plot: Plot | None = None
        self.sides: list[ChoiceMenu] = []
        self.chart = HistoryChart(appearance, self)
        self.table = plain_table(self, ("When", "", ""), "The values behind the chart")
        self.note = QLabel(self)
        self.note.setProperty("role", "muted")
        self.head.insertWidget(1, self.note)
        self.hold(self.chart, self.table)
        self.table_button.toggled.connect(self._show_rows)

    def show_look(self, look: Look, plot: Plot) -> None:
        """Show this."""
        self._plot = plot
        unit = UNITS.get(plot.unit, "")
        self.title.setText(f"{plot.title}, {unit}" if unit else plot.title)
        self._offer(look)
        self.chart.show_plot(plot)
        self._show_rows()

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
            self.head.removeWidget(side)
            side.deleteLater()
        self.sides = [
            ChoiceMenu(self._appearance, f"{SIDES[line]} line", choices, place, self)
            for line, place in enumerate(places)
        ]
        for line, side in enumerate(self.sides):
            side.chosen.connect(lambda place, line=line: self._history.choose(line, known[int(place)]))
            self.head.insertWidget(self.head.count() - 1, side)

    @Slot()
    def _show_rows(self) -> None:
        if self.is_table and self._plot is not None:
            self._fill(self._plot)
