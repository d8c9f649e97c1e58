"""A field for plain text that is as high as what is written in it, up to a limit."""

from __future__ import annotations

from PySide6.QtCore import QKeyCombination, QMimeData, Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QWidget

from app.widgets.wrapping import LONGEST_WORD, wrapping_of

MARGIN = 4
SLACK = 2
"""Pixels below the last line without which Qt scrolls one line too far."""


class GrowingText(QPlainTextEdit):
    """Grows to `most_lines` lines, then scrolls. `height_changed` follows a change of its height."""

    height_changed = Signal()
    focus_changed = Signal(bool)

    def __init__(self, label: str, most_lines: int, least_height: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._most_lines = most_lines
        self._least_height = least_height
        self.setObjectName("growingText")
        self.setAccessibleName(label)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.document().setDocumentMargin(MARGIN)
        self.textChanged.connect(self._keep_words_whole)
        self.textChanged.connect(self.grow)
        self.document().documentLayout().documentSizeChanged.connect(self.grow)

    def setPlainText(self, text: str) -> None:  # noqa: N802 (Qt's name)
        """Show `text` in the place of what is there."""
        self.setWordWrapMode(wrapping_of(text))
        super().setPlainText(text)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802 (Qt's name)
        """Put in what is pasted or dropped."""
        self.setWordWrapMode(wrapping_of(f"{self.toPlainText()}\n{source.text()}"))
        super().insertFromMimeData(source)

    @Slot()
    def grow(self) -> None:
        """Take the height that the text needs."""
        lines = self.document().size().height()  # a plain text document measures its height in lines
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if lines > self._most_lines else policy.ScrollBarAlwaysOff
        )
        shown = min(self._most_lines, max(1, round(lines)))
        needed = shown * self._line_height() + 2 * MARGIN + SLACK
        height = max(self._least_height, needed)
        above = (height - needed + SLACK) // 2 if height > needed else 0  # what is lower stands in the middle
        if above != self.viewportMargins().top():
            self.setViewportMargins(0, above, 0, 0)
        if height != self.height():
            self.setFixedHeight(height)
            self.height_changed.emit()

    @Slot()
    def _keep_words_whole(self) -> None:
        """What was too long for that has gone."""
        if self.document().characterCount() <= LONGEST_WORD:
            self.setWordWrapMode(wrapping_of(""))

    def _line_height(self) -> int:
        """Of a line as it is laid out: a font's metrics may round it to less."""
        first = self.document().firstBlock()
        self.blockBoundingRect(first)  # lays it out
        return round(first.layout().lineAt(0).height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Of another width its lines are wrapped anew. A scroll bar that comes as it is shown Qt misses."""
        super().resizeEvent(event)
        self.grow()
        now = self.viewport().size()
        if now.width() != event.size().width():
            super().resizeEvent(QResizeEvent(now, event.size()))
        self.ensureCursorVisible()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Tell the frame to show the focus."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Tell the frame to hide the focus."""
        super().focusOutEvent(event)
        self.focus_changed.emit(False)


def pressed_keys(event: QKeyEvent) -> QKeySequence:
    """The pressed keys, the number pad's Enter being Return."""
    key = Qt.Key.Key_Return if event.key() == Qt.Key.Key_Enter else Qt.Key(event.key())
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return QKeySequence(QKeyCombination(modifiers, key))
