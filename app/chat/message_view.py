"""What the messages of a conversation have in common as widgets: a height for a width, news of a change."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.store.records import ChatMessage
from app.theme import Theme


class MessageView(QWidget):
    """One message in the transcript. `height_changed` asks the transcript to place it anew."""

    height_changed = Signal()

    def __init__(self, message: ChatMessage, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._message = message

    @property
    def message(self) -> ChatMessage:
        """The message it shows."""
        return self._message

    def show_message(self, message: ChatMessage) -> None:
        """Show a newer version of the message."""
        raise NotImplementedError

    def show_activity(self, activity: str) -> None:
        """Say what is going on before the first word; "" for nothing."""

    def set_theme(self, theme: Theme) -> None:
        """Take on another theme's colours."""

    def fit(self, width: int) -> int:
        """Lay out for `width` pixels and return the height that takes."""
        raise NotImplementedError
