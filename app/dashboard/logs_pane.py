"""The log: entries by level and words, the newest last, one of them in full, and diagnostics to copy."""

from __future__ import annotations

import time

from PySide6.QtCore import QModelIndex, QTimer, Slot
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QPlainTextEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app import text
from app.appearance import Appearance
from app.dashboard.logs_table import LogsTable, full_words
from app.dashboard.logs_view_model import MOST, LogsViewModel
from app.dashboard.pane import SIDE, Panel
from app.dashboard.tables import dress
from app.widgets.banner import Banner
from app.widgets.choice_menu import ChoiceMenu
from app.widgets.plain_label import plain_label
from app.widgets.search_field import SearchField
from app.widgets.tab_button import TabButton

LEVELS = (
    ("debug", "All levels"),
    ("info", "Info and graver"),
    ("warning", "Warnings and errors"),
    ("error", "Errors"),
)
WIDTHS = (130, 80, 170)
DETAIL_HEIGHT = 150
EMPTY = "Nothing was logged: there was no warning and no error."
NOT_FOUND = "No entry of the log fits. Choose another level or other words."
READING = "Reading…"
COPY = "Copy diagnostics"
COLLECTING = "Collecting…"
COPIED = (
    "Copied: what MLXR knows of this machine and the end of its log, without secrets. Paste it into a report."
)


class LogsPane(QWidget):
    """Shows a LogsViewModel while it is seen; follows what comes until somebody scrolls up or reads one."""

    def __init__(self, appearance: Appearance, logs: LogsViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("dashboardColumn")
        self.logs = logs
        self.banner = Banner(appearance, parent=self)
        self.level = ChoiceMenu(appearance, "Levels on show", LEVELS, logs.level, self)
        self.search = SearchField(appearance, "Search the log", self)
        self.follow = TabButton("Follow", self, "Show what is logged as it comes")
        self.copy_button = QPushButton(COPY, self)
        self.model = LogsTable(appearance)
        self._panel = Panel(self)
        self.table = QTableView(self._panel)
        self.detail = QPlainTextEdit(self._panel)
        self.empty, self.count = plain_label("", "muted", self), plain_label("", "muted", self._panel)
        self._dress()
        self._arrange()
        self.level.chosen.connect(self._look)
        self.search.textChanged.connect(self._look)
        self.search.entered.connect(self.table.setFocus)
        self.follow.toggled.connect(self._go_to_end)
        self.table.verticalScrollBar().actionTriggered.connect(self._note_scroll)
        self.table.selectionModel().currentRowChanged.connect(self._show_detail)
        self.model.modelReset.connect(self._hide_detail)
        self.copy_button.clicked.connect(logs.collect)
        logs.changed.connect(self.refresh)
        logs.collected.connect(self._copy)
        logs.failed.connect(self._say_problem)
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Somebody looks."""
        super().showEvent(event)
        self.logs.show()
        self._go_to_end(self.follow.isChecked())

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 (Qt's name)
        """Nobody looks any more."""
        super().hideEvent(event)
        self.logs.hide()
        self.banner.hide()

    @Slot()
    def refresh(self) -> None:
        """Show what was read."""
        logs, found = self.logs, self.logs.entries or ()
        self.copy_button.setText(COLLECTING if logs.is_collecting else COPY)
        self.copy_button.setEnabled(not logs.is_collecting)
        self.empty.setText(self._empty_words())
        self.empty.setVisible(bool(self.empty.text()))
        self._panel.setVisible(not self.empty.text())
        self.count.setText(_count_words(len(found)))
        if found != self.model.entries:
            self.model.show_entries(found, time.time())
            self._go_to_end(self.follow.isChecked())

    def _empty_words(self) -> str:
        """What to say in place of a table, or ""."""
        logs = self.logs
        if logs.problem:
            return text.sentence(logs.problem)
        if logs.entries is None:
            return READING
        if logs.entries:
            return ""
        return NOT_FOUND if logs.words.strip() or logs.level != LEVELS[0][0] else EMPTY

    @Slot()
    def _look(self) -> None:
        self.logs.look_for(self.level.current, self.search.text())

    @Slot(bool)
    def _go_to_end(self, is_wanted: bool) -> None:
        if is_wanted:
            self.table.scrollToBottom()

    @Slot()
    def _note_scroll(self) -> None:
        bar = self.table.verticalScrollBar()
        self.follow.setChecked(bar.sliderPosition() >= bar.maximum())

    @Slot(QModelIndex, QModelIndex)
    def _show_detail(self, current: QModelIndex, _: QModelIndex) -> None:
        if not current.isValid():
            self._hide_detail()
            return
        self.follow.setChecked(False)
        self.detail.setPlainText(full_words(self.model.entries[current.row()], time.time()))
        self.detail.setVisible(True)
        QTimer.singleShot(0, self._keep_in_view)  # the table is laid out anew by then

    @Slot()
    def _keep_in_view(self) -> None:
        self.table.scrollTo(self.table.currentIndex())

    @Slot()
    def _hide_detail(self) -> None:
        self.detail.setVisible(False)

    @Slot(str)
    def _copy(self, words: str) -> None:
        QGuiApplication.clipboard().setText(words)
        self._say(COPIED)

    @Slot(str)
    def _say_problem(self, words: str) -> None:
        self._say(text.sentence(words))

    def _say(self, words: str) -> None:
        self.banner.say(words)
        QTimer.singleShot(0, self._keep_in_view)

    def _dress(self) -> None:
        self.follow.setChecked(True)
        self.copy_button.setToolTip("What `mlxr doctor --report` says, for a bug report")
        self.table.setModel(self.model)
        dress(self.table, "Entries of the log, the newest last")
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)
        for column, width in enumerate(WIDTHS):
            header.resizeSection(column, width)
        self.detail.setObjectName("logEntry")
        self.detail.setReadOnly(True)
        self.detail.setAccessibleName("The chosen entry of the log")
        self.detail.setFrameShape(QFrame.Shape.NoFrame)
        self.detail.setFixedHeight(DETAIL_HEIGHT)
        self.detail.hide()

    def _arrange(self) -> None:
        bar = QHBoxLayout()
        bar.addWidget(self.level)
        bar.addWidget(self.search, 1)
        bar.addWidget(self.follow)
        bar.addWidget(self.copy_button)
        self._panel.column.setContentsMargins(12, 8, 12, 8)
        self._panel.column.addWidget(self.table, 1)
        self._panel.column.addWidget(self.detail)
        self._panel.column.addWidget(self.count)
        column = QVBoxLayout(self)
        column.setContentsMargins(SIDE, 4, SIDE, SIDE)
        column.setSpacing(10)
        column.addLayout(bar)
        column.addWidget(self.banner)
        column.addWidget(self.empty)
        column.addWidget(self._panel, 1)
        column.addStretch(0)


def _count_words(count: int) -> str:
    if count >= MOST:
        return f"The newest {MOST:,} entries"
    return "1 entry" if count == 1 else f"{count:,} entries"
