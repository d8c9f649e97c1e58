"""What stands between this account and a gated model, and the ways through."""

from __future__ import annotations

from PySide6.QtCore import QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.hub.details import Access
from app.widgets.link_button import link_button
from app.widgets.plain_label import plain_label

ACCEPT = "Open its page"
TOKEN = "Give a token…"
AGAIN = "Check again"


class GateBanner(QFrame):
    """Shows an Access; hidden where nothing is to be done. Intents: `token_wanted` and `again_wanted`."""

    token_wanted = Signal()
    again_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self._url = ""
        self._words = plain_label(selectable=True)
        self.token = link_button(TOKEN)
        self.token.clicked.connect(self.token_wanted)
        accept, again = link_button(ACCEPT), link_button(AGAIN)
        accept.clicked.connect(self._open)
        again.clicked.connect(self.again_wanted)
        buttons = QHBoxLayout()
        for button in (accept, self.token, again):
            buttons.addWidget(button)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.addWidget(self._words)
        column.addLayout(buttons)

    @property
    def words(self) -> str:
        """What it says."""
        return self._words.text()

    def show_access(self, access: Access | None) -> None:
        """Say what is to be done; None while it is not known."""
        words = access.words if access else ""
        self._url = access.url if access else ""
        self._words.setText(words)
        self.setAccessibleName(words)
        self.setVisible(bool(words))

    @Slot()
    def _open(self) -> None:
        QDesktopServices.openUrl(QUrl(self._url))
