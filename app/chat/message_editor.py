"""A message of the user being changed, in the place where it stands."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QKeySequence, QTextCursor
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app import text
from app.shortcuts import keys_for
from app.widgets.growing_text import GrowingText, pressed_keys

MOST_LINES = 12
PADDING = 12
GAP = 8


class _Field(GrowingText):
    sent = Signal()
    cancelled = Signal()

    def event(self, event: QEvent) -> bool:
        """Escape is for this field, also while it stops answers elsewhere in the window."""
        is_key = event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent)
        if is_key and event.key() == Qt.Key.Key_Escape:  # type: ignore[union-attr]
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Send or give up; the rest is writing."""
        if pressed_keys(event) == QKeySequence(keys_for("send_edit")):
            self.sent.emit()
        elif event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        else:
            super().keyPressEvent(event)


class MessageEditor(QFrame):
    """Changes a text. Intents: `sent(text)`, `cancelled`; `drafted(text)` follows every change of it."""

    sent = Signal(str)
    cancelled = Signal()
    drafted = Signal(str)
    height_changed = Signal()

    def __init__(self, words: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("messageEditor")
        self._ready = True
        self._fitting = False
        self._field = _Field(text.EDIT, MOST_LINES, 0, self)
        self._field.setPlainText(words)
        self._field.moveCursor(QTextCursor.MoveOperation.End)
        self._cancel = QPushButton(text.CANCEL, self)
        self._cancel.setToolTip("Esc")
        self._cancel.clicked.connect(self.cancelled)
        self._save = QPushButton(text.unmarked(text.SAVE_AND_SEND), self)
        self._save.setProperty("kind", "primary")
        self._save.setToolTip(
            QKeySequence(keys_for("send_edit")).toString(QKeySequence.SequenceFormat.NativeText)
        )
        self._save.clicked.connect(self._send)
        self.setFocusProxy(self._field)
        self._field.sent.connect(self._send)
        self._field.cancelled.connect(self.cancelled)
        self._field.focus_changed.connect(self._show_focus)
        self._field.textChanged.connect(self._changed)
        self._field.height_changed.connect(self._tell_height)

    @property
    def text(self) -> str:
        """What is written."""
        return self._field.toPlainText()

    def set_ready(self, ready: bool) -> None:
        """Whether a message can be sent now."""
        self._ready = ready
        self._save.setEnabled(ready and bool(self.text.strip()))

    def fit(self, width: int) -> int:
        """Lay out for `width` pixels and return the height that takes."""
        self._fitting = True
        self._field.ensurePolished()
        self._field.setGeometry(PADDING, GAP, width - 2 * PADDING, self._field.height())
        self._field.grow()
        self._fitting = False
        top = GAP + self._field.height() + GAP
        right = width - PADDING
        for button in (self._save, self._cancel):
            size = button.sizeHint()
            button.setGeometry(right - size.width(), top, size.width(), size.height())
            right -= size.width() + GAP
        return top + self._save.height() + PADDING

    @Slot()
    def _send(self) -> None:
        if self._save.isEnabled():
            self.sent.emit(self.text)

    @Slot()
    def _changed(self) -> None:
        self.set_ready(self._ready)
        self.drafted.emit(self.text)

    @Slot()
    def _tell_height(self) -> None:
        if not self._fitting:
            self.height_changed.emit()

    @Slot(bool)
    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().unpolish(self)
        self.style().polish(self)
