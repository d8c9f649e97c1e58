"""The way from other threads to the window: a queue that the GUI thread drains at most once a frame."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot

FRAME_MS = 50
"""As often as words are drawn (app/chat/throttle.py): more wake-ups would cost the engine, which shares the
interpreter."""
BUDGET_SECONDS = 0.006
"""Most time one drain may take of a frame; what is left waits for the next one."""


class FrameQueue(QObject):
    """Runs callables on the GUI thread, posted from any thread, in order.

    However many are posted, the event loop gets at most one wake-up per frame. `drained` follows each batch,
    so that views are brought up to date once a frame and not once an event.
    """

    drained = Signal()
    _wake = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._calls: deque[Callable[[], None]] = deque()
        self._armed = False
        self._closed = False
        self._last_drain = 0.0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._drain)
        self._wake.connect(self._schedule, Qt.ConnectionType.QueuedConnection)

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the GUI thread soon. Any thread may post; nothing blocks."""
        if self._closed:  # a thread that outlives the window must not touch it
            return
        self._calls.append(call)
        # Two threads may both see False: one wake-up too many, never one too few.
        if not self._armed:
            self._armed = True
            self._wake.emit()

    def close(self) -> None:
        """Run nothing any more: what is posted from now on is dropped."""
        self._closed = True
        self._timer.stop()
        self._calls.clear()

    @Slot()
    def _schedule(self) -> None:
        if not self._closed and not self._timer.isActive():
            since = (time.monotonic() - self._last_drain) * 1000
            self._timer.start(max(0, round(FRAME_MS - since)))

    @Slot()
    def _drain(self) -> None:
        started = time.monotonic()
        self._last_drain = started
        self._armed = False  # before the first pop: whoever posts from here on wakes us again
        try:
            while self._calls:
                self._calls.popleft()()
                if time.monotonic() - started > BUDGET_SECONDS:
                    break
            self.drained.emit()
        finally:  # also when a call raised: those behind it still run
            if self._calls:
                self._armed = True
                self._schedule()
