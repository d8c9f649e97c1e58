"""What the disk cache of computed chats takes, in words, from engine events and from nothing else."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app import text
from app.amounts import size
from app.chat.cache_words import disk_problem_words
from engine import Event, Stats


class DiskUseViewModel(QObject):
    """One line on the disk cache, one more on what is wrong with it; `changed(words)` on changes."""

    changed = Signal(str)

    def __init__(self, in_use: bool, parent: QObject | None = None) -> None:
        """`in_use`: whether the engine was started with a disk cache; without one it knows nothing of it."""
        super().__init__(parent)
        self._in_use = in_use
        unknown = text.DISK_USE.format(held=text.UNKNOWN, written=text.UNKNOWN)
        self._words = unknown if in_use else text.DISK_UNUSED

    @property
    def words(self) -> str:
        """What it takes now and what was written today, as the engine said last."""
        return self._words

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        if not self._in_use or not isinstance(event, Stats):
            return
        cache = event.cache
        words = text.DISK_USE.format(held=_size(cache.ssd_bytes), written=_size(cache.spilled_bytes_today))
        words = "\n".join(filter(None, (words, disk_problem_words(cache.ssd_problem))))
        if words != self._words:
            self._words = words
            self.changed.emit(words)


def _size(held: int) -> str:
    return size(held) if held else text.NOTHING
