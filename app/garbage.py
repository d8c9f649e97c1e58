"""Python's cyclic garbage is collected on the GUI thread only: a Qt object must not die on another one."""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer, Slot

INTERVAL_MS = 200


class GarbageCollector(QObject):
    """Takes over from Python's automatic collection, which runs on whichever thread allocates.

    That could be the engine's or the store's: a widget caught in a cycle would die there, and crash the app.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thresholds = gc.get_threshold()
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self.collect)

    def start(self) -> None:
        """Stop the automatic collection; what exists by now stays for good and need not be looked through."""
        gc.disable()
        gc.freeze()
        self._timer.start()

    def stop(self) -> None:
        """Give the collection back to Python."""
        self._timer.stop()
        gc.unfreeze()
        gc.enable()

    @Slot()
    def collect(self) -> None:
        """Collect the oldest generation that is due, as Python would have."""
        for generation in (2, 1, 0):
            if gc.get_count()[generation] > self._thresholds[generation]:
                gc.collect(generation)
                return
