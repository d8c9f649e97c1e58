"""The log as the dashboard shows it: entries by level and words, read on a thread as the file grows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.errors import AppError
from app.log_reader import Entry, entries
from app.models.background import Background

MOST = 500
"""Entries that are shown: the newest that fit."""

LOOK_MS = 1000
"""Between looks at the file while it is on show."""

_Stamp = tuple[int, int, int]
_Read = tuple[_Stamp | None, tuple[Entry, ...]] | None


class LogsViewModel(QObject):
    """`changed` when `entries` have; `collected(text)` and `failed(words)` of diagnostics.

    Attributes:
        level, words: what is looked for.
        entries: what was found, oldest first; None before the log was read.
        problem: why it cannot be read, or "".
        is_collecting: whether diagnostics are being made.
    """

    changed = Signal()
    collected = Signal(str)
    failed = Signal(str)

    def __init__(
        self,
        log: Path,
        background: Background,
        diagnose: Callable[[], str],
        parent: QObject | None = None,
    ) -> None:
        """`log`: the newest file; `diagnose` makes diagnostics, and is called on the background's thread."""
        super().__init__(parent)
        self._log, self._background, self._diagnose = log, background, diagnose
        self.level, self.words = "debug", ""
        self.entries: tuple[Entry, ...] | None = None
        self.problem = ""
        self.is_collecting = False
        self._is_reading = self._is_old = False
        self._stamp: _Stamp | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self._read)

    def show(self) -> None:
        """Somebody looks."""
        self._timer.start()
        self._read()

    def hide(self) -> None:
        """Nobody looks any more."""
        self._timer.stop()

    def close(self) -> None:
        """End the background's thread."""
        self._timer.stop()
        self._background.end()

    def look_for(self, level: str, words: str) -> None:
        """Show entries of `level` or graver in which each of `words` occurs."""
        if (level, words) != (self.level, self.words):
            self.level, self.words = level, words
            self._stamp, self._is_old = None, self._is_reading
            self._read()

    def collect(self) -> None:
        """Make diagnostics."""
        if self.is_collecting:
            return
        self.is_collecting = True
        self.changed.emit()
        self._background.ask(self._diagnose, self._collect, self._say_failed)

    def _read(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        log, level, words = self._log, self.level, self.words
        known = None if self.entries is None or self.problem else self._stamp
        self._background.ask(lambda: _newest(log, level, words, known), self._show, self._say_unread)

    def _show(self, read: _Read) -> None:
        self._is_reading = False
        if self._is_old:  # something else is looked for by now
            self._is_old = False
            self._read()
        elif read is not None:
            self._stamp, found = read
            if found != self.entries or self.problem:
                self.entries, self.problem = found, ""
                self.changed.emit()

    def _say_unread(self, words: str) -> None:
        self._is_reading = self._is_old = False
        if words != self.problem:
            self.problem = words
            self.changed.emit()

    def _collect(self, text: str) -> None:
        self.is_collecting = False
        self.changed.emit()
        self.collected.emit(text)

    def _say_failed(self, words: str) -> None:
        self.is_collecting = False
        self.changed.emit()
        self.failed.emit(words)


def _newest(log: Path, level: str, words: str, known: _Stamp | None) -> _Read:
    """The newest entries with the file's stamp; None where that is `known`."""
    stamp = _stamp_of(log)
    if stamp is not None and stamp == known:
        return None
    try:
        return stamp, tuple(islice(entries(log, level, words), MOST))[::-1]
    except OSError as error:
        raise AppError(f"the log at {log} cannot be read ({error.strerror})") from None


def _stamp_of(log: Path) -> _Stamp | None:
    """What is another one when the file has grown, or another one has taken its place."""
    try:
        stat = log.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
