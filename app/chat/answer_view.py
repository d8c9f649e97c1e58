"""The model's answer: its blocks, with what is to be said about it and can be done with it underneath."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app import text
from app.appearance import Appearance
from app.chat.answer_notes import note_for
from app.chat.block_column import GAP, BlockColumn
from app.chat.error_line import ErrorLine
from app.chat.markdown_blocks import split_blocks
from app.chat.message_view import MessageView
from app.chat.tree import Versions
from app.store.records import ChatMessage
from app.theme import Theme
from app.widgets.copy_button import CopyButton
from app.widgets.icon_button import IconButton

FOOTER = 28
OUTDENT = 7
"""The copy button's inner margin: its icon stands under the text's first letter."""


class AnswerView(MessageView):
    """Shows an answer that may be growing: only its last block is ever laid out again."""

    def __init__(
        self,
        message: ChatMessage,
        appearance: Appearance,
        versions: Versions,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(message, appearance, versions, parent)
        self._blocks = BlockColumn(appearance, self)
        self._blocks.height_changed.connect(self.height_changed)
        self._activity = QLabel(self)
        self._activity.setObjectName("activity")
        self._activity.hide()
        self._error = ErrorLine(appearance, self)
        self._error.hide()
        self._footer = self._make_footer()
        self.setAccessibleName("Answer")
        self.show_message(message)

    def show_message(self, message: ChatMessage) -> None:
        """Show the message; what has not changed stays as it is."""
        self._message = message
        self._blocks.show_blocks(split_blocks(message.text), growing=message.status == "streaming")
        self._blocks.setVisible(bool(message.text))
        self._error.say(text.sentence(message.error))
        self._error.setVisible(message.status == "failed")
        self._note.setText(note_for(message))
        self._copy.setVisible(bool(message.text))
        self._branch.setVisible(bool(message.text))
        self._footer.setVisible(message.status != "streaming")

    def show_activity(self, activity: str) -> None:
        """Say what is going on in place of the first word."""
        self._activity.setText(activity)
        if self._activity.isHidden() != (not activity):
            self._activity.setVisible(bool(activity))
            self.height_changed.emit()

    def set_ready(self, ready: bool) -> None:
        """Whether another answer could be asked for now."""
        self._again.setEnabled(ready)

    def set_theme(self, theme: Theme) -> None:
        """Colour the Markdown anew."""
        self._blocks.restyle()

    def fit(self, width: int) -> int:
        """Stack the blocks and what belongs under them."""
        top = 0
        for part, height in self._parts(width):
            part.setGeometry(-OUTDENT if part is self._footer else 0, top, width, height)
            top += height + GAP
        return max(0, top - GAP)

    def _parts(self, width: int) -> list[tuple[QWidget, int]]:
        """What is on show, from the top, with the height of each."""
        parts: list[tuple[QWidget, int]] = []
        if not self._blocks.isHidden():
            parts.append((self._blocks, self._blocks.fit(width)))
        if not self._activity.isHidden():
            parts.append((self._activity, self._activity.sizeHint().height()))
        if not self._error.isHidden():
            parts.append((self._error, self._error.heightForWidth(width)))
        if not self._footer.isHidden():
            parts.append((self._footer, max(FOOTER, self._footer.heightForWidth(width))))
        return parts

    def _make_footer(self) -> QWidget:
        footer = QWidget(self)
        self._note = QLabel()
        self._note.setObjectName("answerNote")
        self._note.setWordWrap(True)
        self._copy = CopyButton(self._appearance, "Copy this answer", lambda: self._message.text)
        self._again = self._make_button("again", text.REGENERATE)
        self._again.clicked.connect(self.regenerated)
        self._branch = self._make_button("branch", text.BRANCH)
        self._branch.clicked.connect(self.branched)
        row = QHBoxLayout(footer)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        for part in (self._copy, self._again, self._branch, self._switch):
            row.addWidget(part, 0, Qt.AlignmentFlag.AlignTop)
        row.addSpacing(6)
        row.addWidget(self._note, 1)
        return footer

    def _make_button(self, icon: str, label: str) -> IconButton:
        return IconButton(self._appearance, icon, label, size=FOOTER, icon_size=16)
