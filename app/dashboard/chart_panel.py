"""A chart with its name, and in its place, when that is asked for, the table behind it."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedLayout, QWidget

from app.dashboard.pane import Panel
from app.widgets.tab_button import TabButton


class ChartPanel(Panel):
    """Shows one of the two that it is to `hold`.

    Attributes:
        title: what the chart is of, with its unit.
        head: the line with the title; what belongs before the button goes in at `count() - 1`.
        table_button: checked while the table is on show.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.column.setContentsMargins(12, 8, 12, 4)
        self.title = QLabel(self)
        self.title.setProperty("role", "strong")
        self.table_button = TabButton("Table", self, "Show the values behind the chart as a table")
        self.table_button.toggled.connect(self._show_table)
        self.head, self._stack = QHBoxLayout(), QStackedLayout()
        self.head.addWidget(self.title)
        self.head.addStretch(1)
        self.head.addWidget(self.table_button)
        self.column.addLayout(self.head)
        self.column.addLayout(self._stack, 1)

    @property
    def is_table(self) -> bool:
        """Whether the table is on show."""
        return self.table_button.isChecked()

    def hold(self, chart: QWidget, table: QWidget) -> None:
        """Take both in."""
        self._stack.addWidget(chart)
        self._stack.addWidget(table)

    @Slot(bool)
    def _show_table(self, is_table: bool) -> None:
        self._stack.setCurrentIndex(int(is_table))
