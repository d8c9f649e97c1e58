"""One of several answers: its words in a frame of their own, how far it is, and the wish to keep it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from app import text
from app.appearance import Appearance
from app.chat.answer_body import AnswerBody
from app.chat.answer_notes import progress_of
from app.store.records import ChatMessage
from app.widgets.copy_button import CopyButton

PADDING = 14
HEADER = 20
FOOTER = 32
GAP = 10


class AnswerCard(QFrame):
    """Shows answer `number`, counted from 1. Intent: `kept(message id)`."""

    kept = Signal(str)
    height_changed = Signal()

    def __init__(self, appearance: Appearance, number: int, message: ChatMessage, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("answerCard")
        self._appearance = appearance
        self._message = message
        self._title = text.ANSWER_NUMBER.format(number=number)
        self.setAccessibleName(self._title)
        self._header = self._make_header()
        self._body = AnswerBody(appearance, self)
        self._body.height_changed.connect(self.height_changed)
        self._footer = self._make_footer()
        self.show_message(message)

    @property
    def keep_button(self) -> QPushButton:
        """The button that keeps this answer."""
        return self._keep

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        return self._progress.text()

    def show_message(self, message: ChatMessage) -> None:
        """Show a newer version of the answer."""
        self._message = message
        self._body.show_message(message)
        self._progress.setText(progress_of(message))
        self._keep.setEnabled(bool(message.text))
        self._copy.setEnabled(bool(message.text))

    def show_activity(self, activity: str) -> bool:
        """Say what is going on before the first word. Returns whether that changes the height."""
        return self._body.show_activity("" if self._message.text else activity)

    def show_title(self, wanted: bool) -> None:
        """Name the answer in its frame, or leave that to what is over it."""
        self._name.setVisible(wanted)

    def restyle(self) -> None:
        """Colour the Markdown anew."""
        self._body.restyle()

    def height_for(self, width: int) -> int:
        """The height it needs for `width` pixels, and at least a line of words."""
        body = max(HEADER, self._body.fit(width - 2 * PADDING))
        return PADDING + HEADER + GAP + body + GAP + FOOTER + PADDING

    def fit(self, width: int, height: int) -> None:
        """Lay out what is in it; the buttons stand at the bottom."""
        inner = width - 2 * PADDING
        top = PADDING + HEADER + GAP
        self._header.setGeometry(PADDING, PADDING, inner, HEADER)
        self._body.setGeometry(PADDING, top, inner, self._body.fit(inner))
        self._footer.setGeometry(PADDING, height - PADDING - FOOTER, inner, FOOTER)

    def _make_header(self) -> QWidget:
        header = QWidget(self)
        self._name = QLabel(self._title)
        self._name.setObjectName("answerTitle")
        self._progress = QLabel()
        self._progress.setObjectName("answerNote")
        row = QHBoxLayout(header)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._name)
        row.addStretch(1)
        row.addWidget(self._progress)
        return header

    def _make_footer(self) -> QWidget:
        footer = QWidget(self)
        self._keep = QPushButton(text.KEEP)
        self._keep.setProperty("kind", "keep")
        self._keep.setAccessibleName(f"{text.KEEP}: {self._title}")
        self._keep.clicked.connect(lambda: self.kept.emit(self._message.id))
        self._copy = CopyButton(self._appearance, "Copy this answer", lambda: self._message.text)
        row = QHBoxLayout(footer)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self._keep, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addStretch(1)
        row.addWidget(self._copy, 0, Qt.AlignmentFlag.AlignVCenter)
        return footer
