"""The user's message: a bubble at the right, the text exactly as it was typed."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QToolButton, QWidget

from app.chat.message_view import MessageView
from app.chat.prose_view import ProseView
from app.store.records import ChatMessage

PADDING = (16, 10)
WIDEST = 0.85  # of the column
LONGEST = 3000
"""A longer message is folded: what was pasted must not cost a frame's time to lay out, nor bury the chat."""

UNFOLD = "Show all {count:,} characters"


class UserMessageView(MessageView):
    """Shows a message of the user."""

    def __init__(self, message: ChatMessage, parent: QWidget | None = None) -> None:
        super().__init__(message, parent)
        self._text = ProseView(self)
        self._text.setProperty("place", "bubble")
        self._text.setViewportMargins(PADDING[0], PADDING[1], PADDING[0], PADDING[1])
        self._text.setAccessibleName("Your message")
        self._unfold = QToolButton(self)
        self._unfold.setProperty("kind", "small")
        self._unfold.clicked.connect(self._show_all)
        self.show_message(message)

    def show_message(self, message: ChatMessage) -> None:
        """Show the message, folded when it is very long."""
        self._message = message
        folded = len(message.text) > LONGEST
        self._unfold.setVisible(folded)
        self._unfold.setText(UNFOLD.format(count=len(message.text)))
        self._text.show_plain(message.text[:LONGEST].rstrip() + "…" if folded else message.text)

    def fit(self, width: int) -> int:
        """Make the bubble as narrow as its text allows."""
        horizontal, vertical = PADDING
        self._text.ensurePolished()  # the style sheet's font decides the width
        room = int(width * WIDEST) - 2 * horizontal
        text_width = min(room, self._natural_width())
        height = self._text.height_for(text_width) + 2 * vertical
        bubble = text_width + 2 * horizontal
        self._text.setGeometry(width - bubble, 0, bubble, height)
        if self._unfold.isHidden():
            return height
        size = self._unfold.sizeHint()
        self._unfold.setGeometry(width - size.width(), height + 4, size.width(), size.height())
        return height + 4 + size.height()

    def _natural_width(self) -> int:
        measure = self._text.fontMetrics().horizontalAdvance
        return max(measure(line) for line in self._text.shown.split("\n")) + 2

    @Slot()
    def _show_all(self) -> None:
        self._unfold.hide()
        self._text.show_plain(self._message.text)
        self.height_changed.emit()
