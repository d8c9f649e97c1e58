"""Rows of the window: how soon it is there, how smooth it stays, and what it costs the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from app.cli.rows import Row, Target
from app.measure.first_window import TARGET_SECONDS, measure_first_window
from app.measure.stall import PER_SECOND, TARGET_MS, measure_stall


def measure_window(model: Path, runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    """The rows, each from windows in processes of their own; `runs` starts. Raises AppError."""
    say("opening the window")
    first = measure_first_window(model, runs)
    yield Row("first window, cold", "s", first.painted, Target("at most", TARGET_SECONDS))
    yield Row("model ready, cold", "s", first.ready)
    say("streaming into the window")
    stall = measure_stall()
    what = f"GUI thread late, p99 at {PER_SECOND:.0f} tok/s"
    yield Row(what, "ms", (stall.p99_ms,), Target("at most", TARGET_MS))
