"""A window that shows Markdown: what is new."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QTextBrowser, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.chat.document_style import set_markdown
from app.chat.prose_view import open_link
from app.widgets.done_button import done_button

SIZE = (620, 520)


class TextDialog(QDialog):
    """Shows `markdown` under `title`. It loads nothing; links open outside."""

    def __init__(
        self, appearance: Appearance, title: str, markdown: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._markdown = markdown
        self.setWindowTitle(title)
        self.resize(*SIZE)
        heading = QLabel(title)
        heading.setProperty("role", "heading")
        self.view = QTextBrowser()
        self.view.setObjectName("aboutText")
        self.view.setOpenLinks(False)
        self.view.setAccessibleName(title)
        self.view.anchorClicked.connect(open_link)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(done_button(self))
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        column.addWidget(heading)
        column.addWidget(self.view, 1)
        column.addLayout(buttons)
        appearance.changed.connect(self._show)
        self._show()
        self.view.setFocus(Qt.FocusReason.OtherFocusReason)

    @Slot()
    def _show(self) -> None:
        set_markdown(self.view.document(), self._markdown, self._appearance.theme)
        self.view.moveCursor(QTextCursor.MoveOperation.Start)
