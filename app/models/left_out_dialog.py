"""What looks like a model and is none: where it lies, why, what it takes, and deleting it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app import text
from app.amounts import size
from app.library.records import LeftOut
from app.widgets.done_button import done_button
from app.widgets.key_frame import KeyFrame
from app.widgets.plain_label import plain_label

TITLE = "Not whole or not readable"
DELETE = "Delete…"
WIDTH, MOST_HEIGHT = 600, 360


class LeftOutDialog(QDialog):
    """Shows what was left out. Intent: `removal_wanted(LeftOut)`, of what lies in the Hugging Face cache."""

    removal_wanted = Signal(object)

    def __init__(self, left_out: Sequence[LeftOut], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(TITLE)
        self.setFixedWidth(WIDTH)
        self.rows = [self._make_row(one) for one in left_out]
        rows = QWidget()
        rows.setObjectName("repoColumn")
        inside = QVBoxLayout(rows)
        inside.setContentsMargins(0, 0, 8, 0)
        inside.setSpacing(8)
        for row in self.rows:
            inside.addWidget(row)
        inside.addStretch(1)
        scroll = QScrollArea()
        scroll.setObjectName("leftOut")
        scroll.setAccessibleName(TITLE)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(rows)
        KeyFrame(scroll)
        scroll.setFixedHeight(min(MOST_HEIGHT, rows.heightForWidth(WIDTH - 72)))
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(done_button(self))
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        column.addWidget(plain_label(TITLE, "heading"))
        column.addWidget(scroll)
        column.addLayout(buttons)

    def _make_row(self, one: LeftOut) -> QWidget:
        row = QFrame()
        row.setObjectName("choice")
        words = QVBoxLayout()
        words.setSpacing(2)
        name = one.repository or one.path.name
        words.addWidget(plain_label(f"{name} · {size(one.size)}" if one.size else name, "strong"))
        words.addWidget(plain_label(text.sentence(one.problem), "muted"))
        beside = QHBoxLayout(row)
        beside.setContentsMargins(14, 10, 12, 10)
        beside.setSpacing(10)
        beside.addLayout(words, 1)
        if one.repository:
            delete = QPushButton(DELETE)
            delete.setAutoDefault(False)
            delete.setAccessibleName(f"{DELETE} {name}")
            delete.clicked.connect(lambda: self._end_with(one))
            beside.addWidget(delete, 0, Qt.AlignmentFlag.AlignVCenter)
        row.setToolTip(text.untagged(str(one.path)))
        return row

    def _end_with(self, one: LeftOut) -> None:
        self.accept()
        self.removal_wanted.emit(one)
