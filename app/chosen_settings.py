"""The settings as they are chosen now, and their file, which is written off the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from PySide6.QtCore import QObject, Signal

from app.models.background import Post
from app.settings import Settings, SettingsFile


class ChosenSettings(QObject):
    """Signal: `failed(words)` when a change will not survive a restart."""

    failed = Signal(str)

    def __init__(self, file: SettingsFile, post: Post, parent: QObject | None = None) -> None:
        """`post` runs a callable on this thread later."""
        super().__init__(parent)
        self._file = file
        self._post = post
        self._writers = ThreadPoolExecutor(1, thread_name_prefix="mlxr-settings")
        loaded = file.load()
        self._values = loaded.settings
        self.problem = loaded.problem
        """One line on what was wrong with the file at the start, "" when nothing was."""

    @property
    def values(self) -> Settings:
        """What is chosen."""
        return self._values

    def change(self, change: Callable[[Settings], Settings]) -> None:
        """Keep it, also for the next start."""
        self._values = change(self._values)
        self._writers.submit(self._write, change)

    def close(self) -> None:
        """Wait until everything is written."""
        self._writers.shutdown()

    def _write(self, change: Callable[[Settings], Settings]) -> None:
        problem = self._file.update(change)
        if problem:
            self._post(lambda: self.failed.emit(problem))
