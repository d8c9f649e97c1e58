"""Messages that are being changed: their new words stay while other chats are looked at, and after a kill."""

from __future__ import annotations

from collections.abc import Set

from PySide6.QtCore import QObject, QTimer, Slot

from app.store.face import Store
from app.store.records import Edit, storable

SAVE_INTERVAL_MS = 500


class Edits(QObject):
    """The new words of messages of all chats that were not sent yet; saved while they are written."""

    def __init__(self, store: Store, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._words: dict[str, str] = {}  # by message; the one written in last is the last
        self._answers: dict[str, int] = {}
        self._unsaved: dict[str, None] = {}  # in the same order
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SAVE_INTERVAL_MS)
        self._timer.timeout.connect(self.save_now)

    def load(self) -> None:
        """Read from the store what was written before; where that fails it stays there for the next start."""
        self._store.ask(lambda store: store.edits(), self._take)

    def words(self, message_id: str) -> str | None:
        """The new words of a message; None while nobody changes it."""
        return self._words.get(message_id)

    def answers(self, message_id: str) -> int:
        """How many answers a message's new words are to have."""
        return self._answers.get(message_id, 1)

    def ask_for(self, message_id: str, answers: int) -> None:
        """The new words of a message, which are about to be written, are to have so many answers."""
        self._answers[message_id] = answers

    def newest(self, among: Set[str]) -> tuple[str, str] | None:
        """Of the messages `among` these, the one written in last: its new words, its id."""
        return next(((words, id_) for id_, words in reversed(self._words.items()) if id_ in among), None)

    def write(self, message_id: str, words: str) -> None:
        """The new words of a message as they are now."""
        self._words.pop(message_id, None)
        self._words[message_id] = storable(words)
        self._note(message_id)
        if not self._timer.isActive():
            self._timer.start()

    def drop(self, message_id: str) -> None:
        """They were sent, or are not wanted any more: the store is to forget them at once."""
        self._answers.pop(message_id, None)
        if self._words.pop(message_id, None) is not None:
            self._note(message_id)
            self.save_now()

    @Slot()
    def save_now(self) -> None:
        """Save what has changed since the last time."""
        self._timer.stop()
        for message_id in self._unsaved:
            self._store.save(Edit(message_id, self._words.get(message_id, "")))
        self._unsaved.clear()

    def _note(self, message_id: str) -> None:
        self._unsaved.pop(message_id, None)
        self._unsaved[message_id] = None

    def _take(self, stored: dict[str, str]) -> None:
        self._words = {**stored, **self._words}
