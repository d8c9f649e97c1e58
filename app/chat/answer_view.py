"""The model's answer: prose and code, block by block, with what is to be said about it underneath."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app import text
from app.appearance import Appearance
from app.chat.answer_notes import note_for
from app.chat.code_view import CodeView
from app.chat.error_line import ErrorLine
from app.chat.markdown_blocks import Block, Code, Prose, split_blocks
from app.chat.message_view import MessageView
from app.chat.prose_view import ProseView
from app.store.records import ChatMessage
from app.theme import Theme
from app.widgets.copy_button import CopyButton

GAP = 12
FOOTER = 28
OUTDENT = 7
"""The copy button's inner margin: its icon stands under the text's first letter."""


class AnswerView(MessageView):
    """Shows an answer that may be growing: only its last block is ever laid out again."""

    def __init__(self, message: ChatMessage, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(message, parent)
        self._appearance = appearance
        self._blocks: list[Block] = []
        self._views: list[ProseView | CodeView] = []
        self._heights: list[int] = []
        self._width = 0
        self._activity = QLabel(self)
        self._activity.setObjectName("activity")
        self._activity.hide()
        self._error = ErrorLine(appearance, self)
        self._error.hide()
        self._footer = self._make_footer()
        self.setAccessibleName("Answer")
        self.show_message(message)

    def show_message(self, message: ChatMessage) -> None:
        """Show the message; blocks that have not changed stay as they are."""
        self._message = message
        blocks = split_blocks(message.text)
        same = next((i for i, (a, b) in enumerate(zip(self._blocks, blocks, strict=False)) if a != b), None)
        same = min(len(self._blocks), len(blocks)) if same is None else same
        for view in self._views[len(blocks) :]:
            view.hide()
            view.deleteLater()
        del self._views[len(blocks) :], self._heights[same:]
        for place, block in enumerate(blocks[same:], start=same):
            self._show_block(place, block)
        self._blocks = blocks
        self._error.say(text.sentence(message.error))
        self._error.setVisible(message.status == "failed")
        self._note.setText(note_for(message))
        self._footer.setVisible(message.status != "streaming" and bool(message.text or self._note.text()))

    def show_activity(self, activity: str) -> None:
        """Say what is going on in place of the first word."""
        self._activity.setText(activity)
        if self._activity.isHidden() != (not activity):
            self._activity.setVisible(bool(activity))
            self.height_changed.emit()

    def set_theme(self, theme: Theme) -> None:
        """Colour the Markdown anew."""
        for view, block in zip(self._views, self._blocks, strict=True):
            if isinstance(view, ProseView):
                view.show_markdown(block.text, theme)

    def fit(self, width: int) -> int:
        """Stack the blocks. Heights that are known for this width are used again."""
        if width != self._width:
            self._width = width
            self._heights.clear()
        top = 0
        for place, view in enumerate(self._views):
            if place == len(self._heights):
                self._heights.append(view.height_for(width))
            view.setGeometry(0, top, width, self._heights[place])
            top += self._heights[place] + GAP
        for extra, height in self._extras(width):
            extra.setGeometry(-OUTDENT if extra is self._footer else 0, top, width, height)
            top += height + GAP
        return max(0, top - GAP)

    def _extras(self, width: int) -> list[tuple[QWidget, int]]:
        extras: list[tuple[QWidget, int]] = []
        if not self._activity.isHidden():
            extras.append((self._activity, self._activity.sizeHint().height()))
        if not self._error.isHidden():
            extras.append((self._error, self._error.heightForWidth(width)))
        if not self._footer.isHidden():
            extras.append((self._footer, max(FOOTER, self._footer.heightForWidth(width))))
        return extras

    def _show_block(self, place: int, block: Block) -> None:
        kind = ProseView if isinstance(block, Prose) else CodeView
        if place < len(self._views) and type(self._views[place]) is not kind:
            self._views[place].deleteLater()
            self._views[place].hide()
            self._views[place] = self._make_view(kind)
        elif place == len(self._views):
            self._views.append(self._make_view(kind))
        view = self._views[place]
        if isinstance(view, CodeView) and isinstance(block, Code):
            view.show_code(block.text, block.language)
        elif isinstance(view, ProseView):
            view.show_markdown(block.text, self._appearance.theme)

    def _make_view(self, kind: type[ProseView | CodeView]) -> ProseView | CodeView:
        view = CodeView(self._appearance, self) if kind is CodeView else ProseView(self)
        view.show()
        return view

    def _make_footer(self) -> QWidget:
        footer = QWidget(self)
        self._note = QLabel()
        self._note.setObjectName("answerNote")
        self._note.setWordWrap(True)
        self._copy = CopyButton(self._appearance, "Copy this answer", lambda: self._message.text)
        row = QHBoxLayout(footer)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._copy)
        row.addWidget(self._note, 1)
        return footer
