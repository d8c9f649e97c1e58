"""A strip that says what is wrong and stays until it is over or put away."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from app.appearance import Appearance
from app.icons import pixmap
from app.widgets.icon_button import IconButton

ICON = 20


class Banner(QFrame):
    """One message with an optional action. Hidden while it has nothing to say."""

    acted = Signal()

    def __init__(
        self,
        appearance: Appearance,
        tone: Literal["notice", "danger"] = "notice",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self.setProperty("tone", tone)
        self._appearance = appearance
        self._tone = tone
        self._icon = QLabel()
        self._icon.setFixedSize(QSize(ICON, ICON))
        self._text = QLabel()
        self._text.setWordWrap(True)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._action = QPushButton()
        self._action.setProperty("kind", "link")
        self._action.clicked.connect(self.acted)
        close = IconButton(appearance, "close", "Put this message away", colour=tone, size=28, icon_size=16)
        close.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 8, 8)
        row.setSpacing(8)
        row.addWidget(self._icon)
        row.addWidget(self._text, 1)
        row.addWidget(self._action)
        row.addWidget(close)
        appearance.changed.connect(self._paint)
        self._paint()
        self.hide()

    @property
    def text(self) -> str:
        """What it says."""
        return self._text.text()

    def say(self, text: str, action: str = "") -> None:
        """Show the message, with a button called `action` unless that is ""; an empty message hides it."""
        self._text.setText(text)
        self._action.setText(action)
        self._action.setVisible(bool(action))
        self.setAccessibleName(text)
        self.setVisible(bool(text))

    @Slot()
    def _paint(self) -> None:
        colour = getattr(self._appearance.theme, self._tone)
        self._icon.setPixmap(pixmap("warning", colour, ICON, self.devicePixelRatioF()))
