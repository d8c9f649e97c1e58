"""The dashboard: its panes, one at a time, with the way back to the chats."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.widgets.tabbed_page import TabbedPage

TITLE = "Dashboard"
PANES = ("Live", "Cache", "Kernels", "History", "Benchmark", "Logs")


class DashboardPage(TabbedPage):
    """A tab for each of PANES, and the name of the model that is told of."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(appearance, TITLE, {name: name for name in PANES}, parent)
        self.setObjectName("dashboardPage")
        self._model = QLabel(self)
        self._model.setProperty("role", "muted")
        self._model.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._model.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.end.addWidget(self._model)
        self.end.addSpacing(8)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self.bar)
        column.addLayout(self.stack, 1)

    def show_model(self, words: str) -> None:
        """Name the model that is told of."""
        self._model.setText(words)
        self._model.setToolTip(words)
        self.fit()
