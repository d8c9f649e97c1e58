"""The model's answer: its words, with what is to be said about it and can be done with it underneath."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app import text
from app.appearance import Appearance
from app.chat.answer_body import AnswerBody
from app.chat.answer_notes import note_for
from app.chat.block_column import GAP
from app.chat.message_view import MessageView
from app.chat.several_button import SeveralButton
from app.chat.tree import Versions
from app.store.records import ChatMessage
from app.theme import Theme
from app.widgets.copy_button import CopyButton
from app.widgets.icon_button import IconButton

FOOTER = 28
OUTDENT = 7
"""The copy button's inner margin: its icon stands under the text's first letter."""


class AnswerView(MessageView):
    """Shows one answer."""

    def __init__(
        self,
        message: ChatMessage,
        appearance: Appearance,
        versions: Versions,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(message, appearance, versions, parent)
        self._body = AnswerBody(appearance, self)
        self._body.height_changed.connect(self.height_changed)
        self._body.way_chosen.connect(self.way_chosen)
        self._footer = self._make_footer()
        self.setAccessibleName("Answer")
        self.show_message(message)

    def show_message(self, message: ChatMessage) -> None:
        """Show the message; what has not changed stays as it is."""
        self._message = message
        self._body.show_message(message)
        self._note.setText(note_for(message))
        self._copy.setVisible(bool(message.text))
        self._branch.setVisible(bool(message.text))
        self._footer.setVisible(message.status != "streaming")

    def show_activity(self, activity: str) -> None:
        """Say what is going on in place of the first word."""
        if self._body.show_activity(activity):
            self.height_changed.emit()

    def offer(self, ways: Sequence[str]) -> None:
        """Offer what would let it run."""
        self._body.error.offer(ways)

    def set_ready(self, ready: bool) -> None:
        """Whether another answer could be asked for now."""
        self._again.setEnabled(ready)
        self._several.setEnabled(ready)

    def set_theme(self, theme: Theme) -> None:
        """Colour the Markdown anew."""
        self._body.restyle()

    def fit(self, width: int) -> int:
        """Put the footer under the words."""
        height = self._body.fit(width)
        self._body.setGeometry(0, 0, width, height)
        if self._footer.isHidden():
            return height
        top, footer = height + GAP if height else 0, max(FOOTER, self._footer.heightForWidth(width))
        self._footer.setGeometry(-OUTDENT, top, width, footer)
        return top + footer

    def _make_footer(self) -> QWidget:
        footer = QWidget(self)
        self._note = QLabel()
        self._note.setObjectName("answerNote")
        self._note.setWordWrap(True)
        self._copy = CopyButton(self._appearance, "Copy this answer", lambda: self._message.text)
        self._again = self._make_button("again", text.REGENERATE)
        self._again.clicked.connect(lambda: self.regenerated.emit(1))
        self._several = SeveralButton(self._appearance, text.REGENERATE_SEVERAL, FOOTER)
        self._several.chosen.connect(self.regenerated)
        self._branch = self._make_button("branch", text.BRANCH)
        self._branch.clicked.connect(self.branched)
        row = QHBoxLayout(footer)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        for part in (self._copy, self._again, self._several, self._branch, self._switch):
            row.addWidget(part, 0, Qt.AlignmentFlag.AlignTop)
        row.addSpacing(6)
        row.addWidget(self._note, 1)
        return footer

    def _make_button(self, icon: str, label: str) -> IconButton:
        return IconButton(self._appearance, icon, label, size=FOOTER, icon_size=16)
