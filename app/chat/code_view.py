"""A block of code: monospaced, scrolling sideways, with a button that copies it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QWheelEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QSizePolicy, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.widgets.copy_button import CopyButton
from app.widgets.plain_label import plain_label

HEADER = 36
PADDING = 12
SCROLL_BAR = 12


class _CodeText(QPlainTextEdit):
    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 (Qt's name)
        """Sideways it scrolls itself; up and down the conversation does."""
        delta = event.angleDelta()
        if abs(delta.x()) > abs(delta.y()) or event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            super().wheelEvent(event)
        else:
            event.ignore()


class CodeView(QFrame):
    """Shows code that may still be growing."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("codeBlock")
        self._language = plain_label()
        self._language.setObjectName("codeLanguage")
        self._language.setWordWrap(False)
        self._language.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._text = _CodeText()
        self._text.setObjectName("codeText")
        self._text.setReadOnly(True)
        self._text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._text.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._text.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._text.setAccessibleName("Code")
        self._text.document().setDocumentMargin(0)
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(13)
        self._text.setFont(font)
        self._copy = CopyButton(appearance, "Copy this code", lambda: self.code)
        header = QHBoxLayout()
        header.setContentsMargins(PADDING, 0, 4, 0)
        header.addWidget(self._language, 1)
        header.addWidget(self._copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(0)
        column.addLayout(header)
        column.addWidget(self._text)

    @property
    def code(self) -> str:
        """The code it shows."""
        return self._text.toPlainText()

    def show_code(self, code: str, language: str) -> None:
        """Show `code`; what is new at its end is added without laying out the rest again."""
        self._language.setText(language)
        shown = self.code
        if code.startswith(shown):
            cursor = self._text.textCursor()
            cursor.movePosition(cursor.MoveOperation.End)
            cursor.insertText(code[len(shown) :])
        else:
            self._text.setPlainText(code)

    def height_for(self, width: int) -> int:
        """The height it needs at this width, in pixels."""
        lines = max(1, self._text.document().blockCount())
        text = lines * self._text.fontMetrics().lineSpacing() + 2
        return HEADER + text + PADDING + SCROLL_BAR // 2
