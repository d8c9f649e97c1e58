"""Redraws no more often than the eye needs and their own cost allows: the engine wants the processor too."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, QTimer, Signal, Slot

SHARE = 0.1
"""Most of the GUI thread's time that the redraws may take."""
SHORTEST = 1 / 20
"""Seconds between redraws, however cheap they are."""


class Throttle(QObject):
    """`due` fires on `ask`, at once or when the last redraw is worked off; asking twice meanwhile is once.

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
        self._next = max(started + SHORTEST, ended + (ended - started) * (1 - SHARE) / SHARE)
