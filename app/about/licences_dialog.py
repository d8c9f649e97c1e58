"""The licences: a list of all parts that can be searched, with the text of the chosen one beside it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.about import words
from app.about.parts import Part
from app.appearance import Appearance
from app.models.background import Background
from app.text import sentence
from app.widgets.copy_button import CopyButton
from app.widgets.done_button import DONE
from app.widgets.list_entry import enter_list
from app.widgets.plain_label import plain_label
from app.widgets.search_field import SearchField

SIZE = (960, 620)
LIST_WIDTH = 250


class LicencesDialog(QDialog):
    """Shows the parts as soon as `background` has read them."""

    def __init__(self, appearance: Appearance, background: Background, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: Sequence[Part] = ()
        self._is_open = True
        self.setWindowTitle(words.LICENCES)
        self.resize(*SIZE)
        self.search = SearchField(appearance, words.SEARCH)
        self.list = QListWidget()
        self.list.setObjectName("partList")
        self.list.setAccessibleName(words.LICENCES)
        self.list.setFixedWidth(LIST_WIDTH)
        self.title = plain_label("", "strong", selectable=True)
        self.note = plain_label("", "muted", selectable=True)
        self.text = QPlainTextEdit()
        self.text.setObjectName("licenceText")
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.copy = CopyButton(appearance, "Copy this licence", self.text.toPlainText)
        self.count = plain_label("", "muted", selectable=True)
        self._arrange()
        self._connect(background)

    def _arrange(self) -> None:
        heads = QHBoxLayout()
        heads.addWidget(self.title, 1)
        heads.addWidget(self.copy)
        right = QVBoxLayout()
        right.setSpacing(6)
        right.addLayout(heads)
        right.addWidget(self.note)
        right.addWidget(self.text, 1)
        left = QVBoxLayout()
        left.setSpacing(8)
        left.addWidget(self.search)
        left.addWidget(self.list, 1)
        both = QHBoxLayout()
        both.setSpacing(16)
        both.addLayout(left)
        both.addLayout(right, 1)
        done = QPushButton(DONE)
        done.setProperty("kind", "primary")  # as other dialogs have it, though Return is for the search
        done.setAutoDefault(False)
        done.clicked.connect(self.accept)
        bottom = QHBoxLayout()
        bottom.addWidget(self.count, 1)
        bottom.addWidget(done)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        column.addLayout(both, 1)
        column.addLayout(bottom)

    def _connect(self, background: Background) -> None:
        self.search.textChanged.connect(self._fill)
        self.search.entered.connect(lambda: enter_list(self.list))
        self.list.currentItemChanged.connect(self._show_current)
        self.finished.connect(self._close)
        self.note.setText(words.GATHERING)
        self.copy.hide()
        background.ask(_read, self._show_parts, self._say_problem)

    @Slot()
    def _close(self) -> None:
        self._is_open = False

    def _show_parts(self, parts: Sequence[Part]) -> None:
        if self._is_open:
            self._parts = parts
            self.count.setText(words.COUNT.format(count=len(parts)))
            self._fill()

    def _say_problem(self, line: str) -> None:
        if self._is_open:
            self.note.setText(f"{sentence(line)}.")

    @Slot()
    def _fill(self) -> None:
        """Show the parts whose name or licence holds what is searched for."""
        wanted = self.search.text().strip().lower()
        fitting = [part for part in self._parts if wanted in f"{part.name} {part.licence}".lower()]
        self.list.clear()
        for part in fitting:
            item = QListWidgetItem(part.name)
            item.setData(Qt.ItemDataRole.UserRole, part)
            item.setToolTip(part.licence)
            self.list.addItem(item)
        self.list.setCurrentRow(0)
        if not fitting and self._parts:
            self._show_current(None)

    @Slot(object)
    def _show_current(self, item: QListWidgetItem | None) -> None:
        part: Part | None = item.data(Qt.ItemDataRole.UserRole) if item else None
        self.copy.setVisible(part is not None)
        self.title.setText(f"{part.name} {part.version}".strip() if part else "")
        told = (part.licence, part.note) if part else (words.NOT_FOUND,)
        self.note.setText("\n".join(filter(None, told)))
        self.text.setPlainText(part.text if part else "")


def _read() -> list[Part]:
    from app.about.licences import licences

    return licences()
