"""A report as it is, all of it: to be read, copied, found in its folder, or deleted."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices, QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.crash import crash_words as words
from app.widgets.done_button import done_button
from app.widgets.plain_label import plain_label

SIZE = (720, 560)


class ReportDialog(QDialog):
    """Shows the report at `path`. Intent: `deleted`, when it is to go."""

    deleted = Signal()

    def __init__(self, path: Path, report: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self.setWindowTitle(words.TITLE)
        self.resize(*SIZE)
        self.text = QPlainTextEdit(report)
        self.text.setObjectName("report")
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setAccessibleName(words.TITLE)
        self.copy, self.reveal, self.delete = (
            QPushButton(name) for name in (words.COPY, words.REVEAL, words.DELETE)
        )
        self.done_button = done_button(self)
        self._arrange()
        self.copy.clicked.connect(self._copy)
        self.reveal.clicked.connect(self._reveal)
        self.delete.clicked.connect(self._delete)

    def _arrange(self) -> None:
        about = plain_label(words.ABOUT, "muted")
        title = QLabel(words.TITLE)
        title.setProperty("role", "heading")
        buttons = QHBoxLayout()
        for button in (self.copy, self.reveal, self.delete):
            button.setAutoDefault(False)
            buttons.addWidget(button)
        buttons.addStretch(1)
        buttons.addWidget(self.done_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        column.addWidget(title)
        column.addWidget(about)
        column.addWidget(self.text, 1)
        column.addLayout(buttons)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())
        self.copy.setText(words.COPIED)

    @Slot()
    def _reveal(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._path.parent)))

    @Slot()
    def _delete(self) -> None:
        self.accept()
        self.deleted.emit()
