"""The user's message: a bubble at the right, the text exactly as it was typed, and the way to change it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QToolButton, QWidget

from app import text
from app.appearance import Appearance
from app.chat.message_editor import MessageEditor
from app.chat.message_view import MessageView
from app.chat.prose_view import ProseView
from app.chat.tree import Versions
from app.store.records import ChatMessage
from app.widgets.icon_button import IconButton

PADDING = (16, 10)
WIDEST = 0.85  # of the column
GAP = 4
LONGEST = 3000
"""A longer message is folded: what was pasted must not cost a frame's time to lay out, nor bury the chat."""

UNFOLD = "Show all {count:,} characters"


class UserMessageView(MessageView):
    """Shows a message of the user."""

    def __init__(
        self,
        message: ChatMessage,
        appearance: Appearance,
        versions: Versions,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(message, appearance, versions, parent)
        self._editor: MessageEditor | None = None
        self._ready = True
        self._edit = IconButton(appearance, "rename", text.EDIT, size=28, icon_size=16, parent=self)
        self._edit.clicked.connect(self.start_editing)
        self._text = ProseView(self)
        self._text.setProperty("place", "bubble")
        self._text.setViewportMargins(PADDING[0], PADDING[1], PADDING[0], PADDING[1])
        self._text.setAccessibleName("Your message")
        self._unfold = QToolButton(self)
        self._unfold.setProperty("kind", "small")
        self._unfold.clicked.connect(self._show_all)
        self._parts = [self._text, self._edit, *([self._switch] if versions.count > 1 else [])]
        self.show_message(message)

    @property
    def editor(self) -> MessageEditor | None:
        """Where the message is being changed; None while it is not."""
        return self._editor

    @property
    def edit_button(self) -> IconButton:
        """The button that opens the editor."""
        return self._edit

    def show_message(self, message: ChatMessage) -> None:
        """Show the message, folded when it is very long."""
        self._message = message
        folded = len(message.text) > LONGEST
        self._unfold.setVisible(folded)
        self._unfold.setText(UNFOLD.format(count=len(message.text)))
        self._text.show_plain(message.text[:LONGEST].rstrip() + "…" if folded else message.text)

    def set_ready(self, ready: bool) -> None:
        """Whether another version could be sent now."""
        self._ready = ready
        self._edit.setEnabled(ready)
        if self._editor:
            self._editor.set_ready(ready)

    @Slot()
    def start_editing(self) -> None:
        """Put an editor in the message's place, unless one is there, and the cursor in it."""
        editor = self._editor or self.show_editor(self._message.text)
        editor.setFocus(Qt.FocusReason.OtherFocusReason)
        self.drafted.emit(editor.text)
        self.height_changed.emit()

    def show_editor(self, words: str) -> MessageEditor:
        """Have `words` edited in the message's place; nobody is told."""
        self._editor = editor = MessageEditor(words, self)
        editor.set_ready(self._ready)
        editor.sent.connect(self.edited)
        editor.cancelled.connect(self.stop_editing)
        editor.drafted.connect(lambda words: self.drafted.emit(words))
        editor.height_changed.connect(self.height_changed)
        self._show_parts(False)
        editor.show()
        return editor

    @Slot()
    def stop_editing(self) -> None:
        """Show the message as it is again."""
        if self._editor is None:
            return
        self._editor.hide()
        self._editor.deleteLater()
        self._editor = None
        self._show_parts(True)
        self._edit.setFocus(Qt.FocusReason.OtherFocusReason)
        self.drafted.emit(None)
        self.height_changed.emit()

    def fit(self, width: int) -> int:
        """Make the bubble as narrow as its text allows."""
        if self._editor:
            height = self._editor.fit(width)
            self._editor.setGeometry(0, 0, width, height)
            return height
        horizontal, vertical = PADDING
        self._text.ensurePolished()  # the style sheet's font decides the width
        room = int(width * WIDEST) - 2 * horizontal
        text_width = min(room, self._natural_width())
        height = self._text.height_for(text_width) + 2 * vertical
        bubble = text_width + 2 * horizontal
        self._text.setGeometry(width - bubble, 0, bubble, height)
        one_line = self._text.fontMetrics().height() + 2 * vertical
        edit = self._edit.height()
        self._edit.move(width - bubble - edit - GAP, height - (one_line + edit) // 2)
        right = width
        for part in (self._unfold, self._switch):
            if not part.isHidden():
                size = part.sizeHint()
                part.setGeometry(right - size.width(), height + GAP, size.width(), size.height())
                right -= size.width() + 2 * GAP
        under = [part.height() for part in (self._unfold, self._switch) if not part.isHidden()]
        return height + GAP + max(under) if under else height

    def _natural_width(self) -> int:
        measure = self._text.fontMetrics().horizontalAdvance
        return max(measure(line) for line in self._text.shown.split("\n")) + 2

    def _show_parts(self, shown: bool) -> None:
        for part in self._parts:
            part.setVisible(shown)
        self._unfold.setVisible(shown and self._text.shown != self._message.text)

    @Slot()
    def _show_all(self) -> None:
        self._unfold.hide()
        self._text.show_plain(self._message.text)
        self.height_changed.emit()
