"""About MLXR: which one this is, what it runs on, and the way to its news, its licences and its updates."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.about import words
from app.icons import app_icon
from app.text import APP_NAME
from app.updates import words as update_words
from app.updates.update_check import UpdateCheck
from app.widgets.done_button import done_button
from app.widgets.plain_label import plain_label

WIDTH = 480
ICON = 72


class AboutDialog(QDialog):
    """Shows a build and an UpdateCheck. Intents: `news_wanted` and `licences_wanted`."""

    news_wanted = Signal()
    licences_wanted = Signal()

    def __init__(self, build: str, runs: str, updates: UpdateCheck, parent: QWidget | None = None) -> None:
        """`build` and `runs` are lines: which MLXR this is, and what it runs on."""
        super().__init__(parent)
        self._updates = updates
        self.setWindowTitle(words.ABOUT)
        self.setFixedWidth(WIDTH)
        self.build = plain_label(build, "muted", selectable=True)
        self.runs = plain_label(runs, "muted", selectable=True)
        self.update_line = plain_label(selectable=True)
        self.check = _button(update_words.CHECK, updates.look)
        self.page = _button(update_words.PAGE, self._open_page)
        self.news = _button(update_words.WHATS_NEW, self.news_wanted.emit)
        self.licences = _button(words.LICENCES, self.licences_wanted.emit)
        self._arrange()
        updates.changed.connect(self._show_state)
        self._show_state()

    def _arrange(self) -> None:
        buttons = _row(self.news, self.licences)
        buttons.addStretch(1)
        buttons.addWidget(done_button(self))
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(16)
        column.addLayout(self._make_head())
        column.addWidget(plain_label(words.PRIVACY, selectable=True))
        column.addWidget(self._make_updates())
        column.addLayout(buttons)

    def _make_head(self) -> QHBoxLayout:
        picture = QLabel()
        picture.setPixmap(app_icon().pixmap(QSize(ICON, ICON), self.devicePixelRatioF()))
        picture.setFixedSize(ICON, ICON)
        lines = QVBoxLayout()
        lines.setSpacing(3)
        lines.addWidget(plain_label(APP_NAME, "title", selectable=True))
        lines.addWidget(self.build)
        lines.addWidget(self.runs)
        head = QHBoxLayout()
        head.setSpacing(16)
        head.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        head.addLayout(lines, 1)
        return head

    def _make_updates(self) -> QFrame:
        frame = QFrame()
        frame.setObjectName("panel")
        inside = QVBoxLayout(frame)
        inside.setContentsMargins(14, 12, 14, 12)
        inside.setSpacing(10)
        inside.addWidget(self.update_line)
        row = _row(self.check, self.page)
        row.addStretch(1)
        inside.addLayout(row)
        return frame

    @Slot()
    def _show_state(self) -> None:
        state = self._updates.state
        self.update_line.setText(state.words)
        self.update_line.setVisible(bool(state.words))
        self.check.setVisible(self._updates.can_check)
        self.page.setVisible(bool(self._updates.page) and state.phase in ("newer", "failed"))
        self.adjustSize()

    @Slot()
    def _open_page(self) -> None:
        QDesktopServices.openUrl(QUrl(self._updates.page))


def _row(*buttons: QPushButton) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(8)
    for button in buttons:
        row.addWidget(button)
    return row


def _button(label: str, then: Callable[[], object]) -> QPushButton:
    button = QPushButton(label)
    button.setAutoDefault(False)
    button.clicked.connect(lambda: then())
    return button
