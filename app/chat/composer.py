"""Where the user writes: grows with the text, sends, and stops the answer."""

from __future__ import annotations

from PySide6.QtCore import QKeyCombination, QMimeData, Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QWidget

from app.appearance import Appearance
from app.shortcuts import keys_for
from app.widgets.icon_button import IconButton

MOST_LINES = 8
BUTTON = 32


class _Input(QPlainTextEdit):
    sent = Signal()
    focus_changed = Signal(bool)
    scroll_requested = Signal(float)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Send, break the line, or scroll the conversation; the rest is writing."""
        pressed = _sequence(event)
        if pressed == QKeySequence(keys_for("send")):
            self.sent.emit()
        elif pressed == QKeySequence(keys_for("line_break")):
            self.insertPlainText("\n")
            self.ensureCursorVisible()
        elif event.key() in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self.scroll_requested.emit(-1.0 if event.key() == Qt.Key.Key_PageUp else 1.0)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Tell the frame to show the focus."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Tell the frame to hide the focus."""
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802 (Qt's name)
        """Dropped folders are for the window, not for the text."""
        return not source.hasUrls() and super().canInsertFromMimeData(source)


class Composer(QFrame):
    """The message being written. `sent(text)` and `stopped` are wishes; the text stays until `clear`."""

    sent = Signal(str)
    stopped = Signal()
    scroll_requested = Signal(float)

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self._busy = False
        self._ready = False
        self._stopping = False
        self._input = _Input()
        self._input.setObjectName("composerInput")
        self._input.setAccessibleName("Message")
        self._input.setTabChangesFocus(True)
        self._input.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._input.document().setDocumentMargin(4)
        self._button = IconButton(appearance, "send", "Send", colour="on_accent", size=BUTTON)
        self._button.setObjectName("sendButton")
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 8, 8)
        row.setSpacing(8)
        row.addWidget(self._input, 1)
        row.addWidget(self._button, 0, Qt.AlignmentFlag.AlignBottom)
        self.setFocusProxy(self._input)
        self._input.sent.connect(self._send)
        self._input.scroll_requested.connect(self.scroll_requested)
        self._input.focus_changed.connect(self._show_focus)
        self._input.textChanged.connect(self._text_changed)
        self._input.document().documentLayout().documentSizeChanged.connect(self._grow)
        self._button.clicked.connect(self._click)
        self._grow()
        self._update()

    @property
    def text(self) -> str:
        """What is written."""
        return self._input.toPlainText()

    @property
    def button(self) -> IconButton:
        """The button that sends, and stops while an answer is on its way."""
        return self._button

    def set_text(self, text: str) -> None:
        """Replace what is written."""
        self._input.setPlainText(text)

    def set_state(self, *, ready: bool, busy: bool, stopping: bool) -> None:
        """Whether a message can be sent, an answer is on its way, and it was told to stop."""
        self._ready, self._busy, self._stopping = ready, busy, stopping
        self._button.set_label(f"Stop ({keys_for('stop')})" if busy else "Send")
        self._button.setAccessibleName("Stop" if busy else "Send")
        self._update()

    def set_placeholder(self, placeholder: str) -> None:
        """What stands there while nothing is written."""
        self._input.setPlaceholderText(placeholder)

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
        self._grow()

    @Slot()
    def _grow(self) -> None:
        # A plain text document measures its height in lines.
        lines = min(MOST_LINES, max(1, round(self._input.document().size().height())))
        height = lines * self._input.fontMetrics().lineSpacing() + 10
        policy = Qt.ScrollBarPolicy
        more = self._input.document().size().height() > MOST_LINES
        self._input.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if more else policy.ScrollBarAlwaysOff
        )
        self._input.setFixedHeight(max(BUTTON, height))

    def _update(self) -> None:
        enabled = not self._stopping if self._busy else self._ready and bool(self.text.strip())
        self._button.set_icon("stop" if self._busy else "send", "on_accent" if enabled else "muted")
        self._button.setEnabled(enabled)

    @Slot(bool)
    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().unpolish(self)
        self.style().polish(self)


def _sequence(event: QKeyEvent) -> QKeySequence:
    """The pressed keys, the number pad's Enter being Return."""
    key = Qt.Key.Key_Return if event.key() == Qt.Key.Key_Enter else Qt.Key(event.key())
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return QKeySequence(QKeyCombination(modifiers, key))
