"""Where the user writes: grows with the text, sends, and stops the answer."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QKeySequence, QResizeEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from app import text
from app.appearance import Appearance
from app.chat.several_button import SeveralButton
from app.shortcuts import keys_for
from app.widgets.growing_text import MARGIN, GrowingText, pressed_keys
from app.widgets.icon_button import IconButton

MOST_LINES = 8
BUTTON = 32


class _Input(GrowingText):
    sent = Signal()
    scroll_requested = Signal(float)
    hint = ""

    def show_hint(self) -> None:
        """Show as much of the hint as a line holds: Qt wraps it, and the field is as high as its text."""
        room = self.viewport().width() - 2 * MARGIN
        shown = self.fontMetrics().elidedText(self.hint, Qt.TextElideMode.ElideRight, room)
        if shown != self.placeholderText():
            self.setPlaceholderText(shown)
            self.viewport().update()  # Qt redraws it the first time only

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """There is room for more or less of the hint."""
        super().resizeEvent(event)
        self.show_hint()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Send, break the line, or scroll the conversation; the rest is writing."""
        pressed = pressed_keys(event)
        if pressed == QKeySequence(keys_for("send")):
            self.sent.emit()
        elif pressed == QKeySequence(keys_for("line_break")):
            self.insertPlainText("\n")
            self.ensureCursorVisible()
        elif event.key() in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self.scroll_requested.emit(-1.0 if event.key() == Qt.Key.Key_PageUp else 1.0)
        else:
            super().keyPressEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802 (Qt's name)
        """Dropped folders are for the window, not for the text."""
        return not source.hasUrls() and super().canInsertFromMimeData(source)


class Composer(QFrame):
    """The message being written. Wishes: `sent(text)`, `sent_several(text, how many answers)`, `stopped`.

    The text stays until `set_text`. `drafted(text)` follows every change of it.
    """

    sent = Signal(str)
    sent_several = Signal(str, int)
    drafted = Signal(str)
    stopped = Signal()
    scroll_requested = Signal(float)

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self._busy = False
        self._ready = False
        self._stopping = False
        self._input = _Input("Message", MOST_LINES, BUTTON)
        self._button = IconButton(appearance, "send", "Send", colour="on_accent", size=BUTTON)
        self._button.setObjectName("sendButton")
        self._several = SeveralButton(appearance, text.SEND_SEVERAL, BUTTON)
        self._several.chosen.connect(lambda answers: self.sent_several.emit(self.text, answers))
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 8, 8)
        row.setSpacing(8)
        row.addWidget(self._input, 1)
        row.addWidget(self._several, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self._button, 0, Qt.AlignmentFlag.AlignBottom)
        self.setFocusProxy(self._input)
        self._input.sent.connect(self._send)
        self._input.scroll_requested.connect(self.scroll_requested)
        self._input.focus_changed.connect(self._show_focus)
        self._input.textChanged.connect(self._text_changed)
        self._button.clicked.connect(self._click)
        self._input.grow()
        self._update()

    @property
    def text(self) -> str:
        """What is written."""
        return self._input.toPlainText()

    @property
    def button(self) -> IconButton:
        """The button that sends, and stops while an answer is on its way."""
        return self._button

    @property
    def several_button(self) -> SeveralButton:
        """The button that sends and asks for several answers."""
        return self._several

    def set_text(self, words: str) -> None:
        """Replace what is written; the cursor is at its end."""
        self._input.setPlainText(words)
        self._input.moveCursor(QTextCursor.MoveOperation.End)

    def set_state(self, *, ready: bool, busy: bool, stopping: bool, hindrance: str = "") -> None:
        """Whether a message can be sent, an answer is on its way, and it was told to stop.

        Where nothing can be sent, `hindrance` may say what has to be done first.
        """
        self._ready, self._busy, self._stopping = ready, busy, stopping
        self._button.set_label(f"Stop ({keys_for('stop')})" if busy else hindrance or "Send")
        self._button.setAccessibleName("Stop" if busy else "Send")
        self._several.setToolTip(hindrance or text.SEND_SEVERAL)
        self._update()

    def set_placeholder(self, placeholder: str) -> None:
        """What stands there while nothing is written."""
        self._input.hint = placeholder
        self._input.show_hint()

    @Slot()
    def _click(self) -> None:
        if self._busy:
            self.stopped.emit()
        else:
            self._send()

    @Slot()
    def _send(self) -> None:
        if self._ready and self.text.strip():
            self.sent.emit(self.text)

    @Slot()
    def _text_changed(self) -> None:
        self._update()
        self.drafted.emit(self.text)

    def _update(self) -> None:
        enabled = not self._stopping if self._busy else self._ready and bool(self.text.strip())
        self._button.set_icon("stop" if self._busy else "send", "on_accent" if enabled else "muted")
        self._button.setEnabled(enabled)
        self._several.setVisible(not self._busy)
        self._several.setEnabled(enabled)

    @Slot(bool)
    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().unpolish(self)
        self.style().polish(self)
