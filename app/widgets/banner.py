"""A strip that says what is wrong, or only what was, and stays until it is over or put away."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from app.appearance import Appearance
from app.icons import pixmap
from app.widgets.icon_button import IconButton
from app.widgets.plain_label import plain_label

ICON = 20

Tone = Literal["notice", "danger", "muted"]
"""A field of Theme; "muted" is plain information, without the sign of a warning."""


class Banner(QFrame):
    """One message with an optional action. Hidden while it has nothing to say."""

    acted = Signal()

    def __init__(
        self,
        appearance: Appearance,
        tone: Tone = "notice",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self.setProperty("tone", tone)
        self._appearance = appearance
        self._tone: Tone = tone
        self._icon = QLabel()
        self._icon.setFixedSize(QSize(ICON, ICON))
        self._text = plain_label(selectable=True)
        self._action = QPushButton()
        self._action.setProperty("kind", "link")
        self._action.clicked.connect(self.acted)
        self._close = IconButton(
            appearance, "close", "Put this message away", colour=tone, size=28, icon_size=16
        )
        self._close.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 8, 8)
        row.setSpacing(8)
        row.addWidget(self._icon)
        row.addWidget(self._text, 1)
        row.addWidget(self._action)
        row.addWidget(self._close)
        appearance.changed.connect(self._paint)
        self._paint()
        self.hide()

    @property
    def text(self) -> str:
        """What it says."""
        return self._text.text()

    @property
    def tone(self) -> Tone:
        """How grave it is."""
        return self._tone

    def say(self, text: str, action: str = "") -> None:
        """Show the message, with a button called `action` unless that is ""; an empty message hides it."""
        self._text.setText(text)
        self._action.setText(action)
        self._action.setVisible(bool(action))
        self.setAccessibleName(text)
        self.setVisible(bool(text))

    def set_tone(self, tone: Tone) -> None:
        """How grave it is from now on."""
        self._tone = tone
        self.setProperty("tone", tone)
        for part in (self, self._text, self._action):  # the style sheet looks at the tone
            part.style().unpolish(part)
            part.style().polish(part)
        self._close.set_icon("close", tone)
        self._paint()

    @Slot()
    def _paint(self) -> None:
        colour = getattr(self._appearance.theme, self._tone)
        self._icon.setPixmap(pixmap("warning", colour, ICON, self.devicePixelRatioF()))
        self._icon.setVisible(self._tone != "muted")
