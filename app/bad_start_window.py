"""The window in place of MLXR's when it cannot start, or not well: what is wrong, and what to do."""

from __future__ import annotations

from functools import partial
from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDialog, QHBoxLayout, QLabel, QPushButton, QVBoxLayout

from app import text
from app.appearance import Appearance
from app.application import make_application
from app.bad_start import BadStart
from app.widgets.plain_label import plain_label

Answer = Literal["quit", "again", "go on"]

QUIT = "Quit"
AGAIN = "Try again"
GO_ON = "Start anyway"
WIDTH = 480
ICON = 56


class BadStartWindow(QDialog):
    """Shows a BadStart; `answer` is what the person chose, "quit" where the window was closed."""

    def __init__(self, problem: BadStart) -> None:
        super().__init__()
        self.answer: Answer = "quit"
        self.setWindowTitle(text.APP_NAME)
        self.setFixedWidth(WIDTH)
        heading, words = plain_label(problem.title, "heading"), plain_label(problem.words, selectable=True)
        column = QVBoxLayout()
        column.setSpacing(8)
        column.addWidget(heading)
        column.addWidget(words)
        column.addStretch(1)
        icon = QLabel()
        icon.setPixmap(QApplication.windowIcon().pixmap(ICON, ICON))
        icon.setAlignment(Qt.AlignmentFlag.AlignTop)
        row = QHBoxLayout()
        row.setSpacing(20)
        row.addWidget(icon)
        row.addLayout(column, 1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(24, 24, 24, 20)
        whole.setSpacing(20)
        whole.addLayout(row)
        whole.addLayout(self._make_buttons(problem.can_go_on))
        self.setFixedHeight(self.heightForWidth(WIDTH))

    def _make_buttons(self, can_go_on: bool) -> QHBoxLayout:
        answers: list[tuple[str, Answer]] = [(QUIT, "quit")]
        if can_go_on:
            answers = [(GO_ON, "go on"), (QUIT, "quit"), (AGAIN, "again")]
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        for words, answer in answers:
            button = QPushButton(words)
            button.setDefault(answer == answers[-1][1])
            button.setAutoDefault(False)
            button.clicked.connect(partial(self._choose, answer))
            buttons.addWidget(button)
        return buttons

    def _choose(self, answer: Answer, _is_checked: bool = False) -> None:
        self.answer = answer
        self.accept()


def ask_about(problem: BadStart) -> Answer:
    """Show what is wrong in a window of its own, and return what the person chose."""
    application = make_application()
    appearance = Appearance(application)
    window = BadStartWindow(problem)
    application.setQuitOnLastWindowClosed(False)  # MLXR's own may come yet
    window.exec()
    window.deleteLater()
    appearance.deleteLater()
    application.setQuitOnLastWindowClosed(True)
    return window.answer
