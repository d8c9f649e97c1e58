"""An answer's words, or what stands in their place: what is going on before the first one, or the error."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QWidget

from app import text
from app.appearance import Appearance
from app.chat.block_column import GAP, BlockColumn
from app.chat.error_line import ErrorLine
from app.chat.markdown_blocks import split_blocks
from app.store.records import ChatMessage


class AnswerBody(QWidget):
    """Shows an answer that may be growing: only its last block is ever laid out again.

    Intent: `way_chosen(number of the way out of its error)`.
    """

    height_changed = Signal()
    way_chosen = Signal(int)

    def __init__(self, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(parent)
        self._blocks = BlockColumn(appearance, self)
        self._blocks.height_changed.connect(self.height_changed)
        self._activity = QLabel(self)
        self._activity.setObjectName("activity")
        self._activity.setWordWrap(True)
        self._activity.hide()
        self._error = ErrorLine(appearance, self)
        self._error.way_chosen.connect(self.way_chosen)
        self._error.hide()

    @property
    def error(self) -> ErrorLine:
        """The line that says why it failed."""
        return self._error

    def show_message(self, message: ChatMessage) -> None:
        """Show the message; what has not changed stays as it is."""
        self._blocks.show_blocks(split_blocks(message.text), growing=message.status == "streaming")
        self._blocks.setVisible(bool(message.text))
        self._error.say(text.sentence(message.error))
        self._error.setVisible(message.status == "failed")

    def show_activity(self, activity: str) -> bool:
        """Say what is going on in place of the first word. Returns whether that changes the height."""
        changed = self._activity.text() != activity  # longer words may take another line
        self._activity.setText(activity)
        self._activity.setVisible(bool(activity))
        return changed

    def restyle(self) -> None:
        """Colour the Markdown anew."""
        self._blocks.restyle()

    def fit(self, width: int) -> int:
        """Stack what is on show and return its height; 0 when there is nothing."""
        top = 0
        for part, height in self._parts(width):
            part.setGeometry(0, top, width, height)
            top += height + GAP
        return max(0, top - GAP)

    def _parts(self, width: int) -> list[tuple[QWidget, int]]:
        parts: list[tuple[QWidget, int]] = []
        if not self._blocks.isHidden():
            parts.append((self._blocks, self._blocks.fit(width)))
        if not self._activity.isHidden():
            parts.append((self._activity, self._activity.heightForWidth(width)))
        if not self._error.isHidden():
            parts.append((self._error, self._error.heightForWidth(width)))
        return parts
