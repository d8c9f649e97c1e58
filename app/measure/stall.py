"""How long the GUI thread is kept from its next event while an answer streams into the real window."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from app.measure.child import run_child

TARGET_MS = 16.0
PER_SECOND = 200.0
TOKENS = 2000
BEAT_MS = 1


@dataclass(frozen=True, slots=True)
class Stall:
    """How late the beats of a 1 ms timer on the GUI thread were, in milliseconds.

    Attributes:
        beats: how many were timed.
        tokens: tokens that were streamed meanwhile.
        tps: tokens a second that reached the screen's message.
    """

    median_ms: float
    p99_ms: float
    max_ms: float
    beats: int
    tokens: int
    tps: float


def measure_stall(tokens: int = TOKENS, per_second: float = PER_SECOND) -> Stall:
    """Stream `tokens` of mixed Markdown into the window, in a process of its own. Raises MeasureFailed."""
    return Stall(**run_child("app.measure.stall", str(tokens), str(per_second)))


def lateness(beats: list[float], interval: float) -> list[float]:
    """By how much each beat came later than `interval` after the one before it; seconds, none below 0."""
    return [max(0.0, after - before - interval) for before, after in pairwise(beats)]


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _child(tokens: int, per_second: float) -> None:
    from PySide6.QtCore import Qt, QTimer

    from app.application import make_application
    from app.measure.paced_engine import PacedEngine
    from app.paths import default_paths
    from app.wiring import Desktop

    application = make_application()
    desktop = Desktop(application, lambda emit: PacedEngine(emit, per_second, tokens), default_paths())
    beats: list[float] = []
    heart = QTimer()
    heart.setTimerType(Qt.TimerType.PreciseTimer)
    heart.setInterval(BEAT_MS)
    heart.timeout.connect(lambda: beats.append(time.perf_counter()))

    def begin() -> None:
        desktop.conversation.send("Stream, please.")
        heart.start()

    desktop.models.opened.connect(lambda path: QTimer.singleShot(300, begin))
    desktop.conversation.state_changed.connect(lambda state: state.busy or application.quit())
    desktop.start(Path("paced"))
    application.exec()
    late = [seconds * 1000 for seconds in lateness(beats, BEAT_MS / 1000)]
    found = Stall(
        median_ms=percentile(late, 0.5),
        p99_ms=percentile(late, 0.99),
        max_ms=max(late),
        beats=len(late),
        tokens=tokens,
        tps=tokens / (beats[-1] - beats[0]),
    )
    desktop.close()
    print(json.dumps({name: getattr(found, name) for name in Stall.__slots__}))


if __name__ == "__main__":
    _child(int(sys.argv[1]), float(sys.argv[2]))
