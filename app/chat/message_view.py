"""What the messages of a conversation have in common as widgets: a height for a width, news and wishes."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.appearance import Appearance
from app.chat.tree import Versions
from app.chat.version_switch import VersionSwitch
from app.store.records import ChatMessage
from app.theme import COLUMN_WIDTH, Theme


class MessageView(QWidget):
    """One message in the transcript. `height_changed` asks the transcript to place it anew.

    Intents: `edited(text)`, `regenerated(how many answers)`, `branched`, `stepped(-1 or 1)` to another
    version, `kept(message id)` of one of several, `way_chosen(number)` of the ways out; and `drafted(text)`
    while another version is being written, None when that is over.
    """

    height_changed = Signal()
    edited = Signal(str)
    regenerated = Signal(int)
    kept = Signal(str)
    way_chosen = Signal(int)
    branched = Signal()
    stepped = Signal(int)
    drafted = Signal(object)

    def __init__(
        self,
        message: ChatMessage,
        appearance: Appearance,
        versions: Versions,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._message = message
        self._appearance = appearance
        self._switch = VersionSwitch(appearance, versions, self)
        self._switch.stepped.connect(self.stepped)

    @property
    def message(self) -> ChatMessage:
        """The message it shows."""
        return self._message

    @property
    def switch(self) -> VersionSwitch:
        """The way to its other versions."""
        return self._switch

    def show_message(self, message: ChatMessage) -> None:
        """Show a newer version of the message."""
        raise NotImplementedError

    def show_activity(self, activity: str) -> None:
        """Say what is going on before the first word; "" for nothing."""

    def offer(self, ways: Sequence[str]) -> None:
        """Offer ways out of what went wrong."""

    def set_ready(self, ready: bool) -> None:
        """Whether the engine can be asked now."""

    def set_theme(self, theme: Theme) -> None:
        """Take on another theme's colours."""

    def width_in(self, room: int) -> int:
        """How wide it wants to be where `room` pixels are."""
        return min(COLUMN_WIDTH, room)

    def fit(self, width: int) -> int:
        """Lay out for `width` pixels and return the height that takes."""
        raise NotImplementedError
