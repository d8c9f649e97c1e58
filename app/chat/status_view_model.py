"""The engine's status for the status line, told at most once a frame."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.chat.engine_status import EngineStatus, fold
from engine import Event


class StatusViewModel(QObject):
    """Folds engine events; `changed(EngineStatus)` on `flush`, when something has."""

    changed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._status = EngineStatus()
        self._told = self._status

    @property
    def status(self) -> EngineStatus:
        """The status after all events so far."""
        return self._status

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        self._status = fold(self._status, event)

    def flush(self) -> None:
        """Tell the view what has changed since the last time."""
        if self._status != self._told:
            self._told = self._status
            self.changed.emit(self._status)
