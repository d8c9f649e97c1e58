"""Redraws no more often than their own cost allows."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, QTimer, Signal, Slot

SHARE = 0.25
"""Most of the GUI thread's time that the redraws may take."""


class Throttle(QObject):
    """`due` fires on `ask`, at once or as soon as the last redraws' cost is worked off; asking twice is once.

    The receivers of `due` run inside it, so that their time is what is measured.
    """

    due = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._next = 0.0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._fire)

    def ask(self) -> None:
        """Something has changed."""
        wait = self._next - time.monotonic()
        if wait <= 0:
            self._fire()
        elif not self._timer.isActive():
            self._timer.start(max(1, round(wait * 1000)))

    def reset(self) -> None:
        """Forget what was asked, and let the next one through at once."""
        self._timer.stop()
        self._next = 0.0

    @Slot()
    def _fire(self) -> None:
        started = time.monotonic()
        self.due.emit()
        ended = time.monotonic()
        self._next = ended + (ended - started) * (1 - SHARE) / SHARE
