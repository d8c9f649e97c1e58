"""How long it takes from the start of the process to the window's first picture, and to a ready model."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from app.measure.child import run_child

TARGET_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class FirstWindow:
    """Seconds of each start, from before the interpreter ran.

    Attributes:
        painted: to the window's first paint.
        ready: to ModelReady.
    """

    painted: tuple[float, ...]
    ready: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median time to the first paint."""
        return statistics.median(self.painted)


def measure_first_window(model: Path, starts: int = 5) -> FirstWindow:
    """Start the window with `model` that many times, one after the other. Raises MeasureFailed."""
    painted: list[float] = []
    ready: list[float] = []
    for _ in range(starts):
        # The monotonic clock is the same one in parent and child.
        found = run_child("app.measure.first_window", str(model), repr(time.monotonic()))
        painted.append(found["painted"])
        ready.append(found["ready"])
    return FirstWindow(tuple(painted), tuple(ready))


def _child(model: str, started: float) -> int:
    """Open the window as `mlxr` does, note the two moments, and quit."""
    from PySide6.QtCore import QEvent, QObject

    from app.application import make_application
    from app.paths import default_paths
    from app.wiring import Desktop
    from engine import Engine

    times: dict[str, float] = {}
    application = make_application()
    desktop = Desktop(application, Engine, default_paths())

    def note(name: str) -> None:
        times.setdefault(name, time.monotonic() - started)
        if len(times) == 2:
            application.quit()

    class PaintWatch(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
            if event.type() == QEvent.Type.Paint:
                desktop.pane.removeEventFilter(self)
                # The event loop runs on when the whole window, of which this is the largest part, is painted.
                desktop.queue.post(lambda: note("painted"))
            return False

    watch = PaintWatch()
    desktop.pane.installEventFilter(watch)
    desktop.models.opened.connect(lambda path: note("ready"))
    desktop.start(Path(model))
    application.exec()
    print(json.dumps(times), flush=True)
    os._exit(0)  # the measurement is over: closing in good order is not part of it


if __name__ == "__main__":
    _child(sys.argv[1], float(sys.argv[2]))
