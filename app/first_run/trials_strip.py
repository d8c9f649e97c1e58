"""A thin strip over the status line: how far the trials of kernels are, and a way to put them off."""

from __future__ import annotations

import sys

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.first_run import trial_words as words
from app.first_run.trials_view_model import TrialsViewModel

SIDE = 16
HEIGHT = 34


class TrialsStrip(QWidget):
    """Shows a TrialsViewModel; hidden where there is nothing to try, as on a machine without a GPU."""

    def __init__(self, trials: TrialsViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("trialsStrip")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(HEIGHT)
        self.setToolTip(words.TOOLTIP)
        self._trials = trials
        self._label = QLabel()
        self._label.setProperty("role", "muted")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedHeight(2)
        self.later = QPushButton(words.LATER)
        self.later.setProperty("kind", "link")
        self.later.setToolTip(words.LATER_TOOLTIP)
        self.later.clicked.connect(lambda: trials.put_off(True))
        self._arrange()
        trials.changed.connect(self._show)
        self._show()

    @property
    def words(self) -> str:
        """What it says, "" while it is hidden."""
        return "" if self.isHidden() else self._label.text()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Its words do not keep the window from being narrow."""
        return QSize(0, HEIGHT)

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setContentsMargins(SIDE, 0, SIDE - 8, 0)
        row.addWidget(self._label, 1)
        row.addWidget(self.later)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        column.addWidget(self._bar)
        column.addLayout(row, 1)

    @Slot()
    def _show(self) -> None:
        trials = self._trials.trials
        if trials is not None and words.is_on_show(trials):
            said = words.strip_words(trials, sys.platform == "darwin")
            self._label.setText(said)
            self.setAccessibleName(said)
            self._bar.setRange(0, trials.total)
            self._bar.setValue(trials.done)
            self.show()
        else:
            self.hide()
