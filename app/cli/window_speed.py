"""Rows of the window: how soon it is there, how smooth it stays, and what it costs the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from app.cli.rows import Row, Target
from app.measure.dashboard_cost import BUSY_TARGET, IDLE_TARGET, measure_dashboard_cost
from app.measure.dashboard_cost import TARGET as DASHBOARD_TARGET
from app.measure.decode_ratio import TARGET, measure_decode_ratio
from app.measure.first_window import TARGET_SECONDS, measure_first_window
from app.measure.stall import PER_SECOND, TARGET_MS, measure_stall

WINDOW, DASHBOARD = "window", "dashboard"


def measure_window(model: Path, runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    """The rows, each from windows in processes of their own.

    Args:
        model: a model that can chat.
        runs: starts of the window, pairs with and without it, and rounds of the dashboard's panes.

    Raises:
        AppError: a window ended badly.
    """
    say("opening the window")
    first = measure_first_window(model, runs)
    yield Row("first window, cold", "s", first.painted, Target("at most", TARGET_SECONDS), WINDOW)
    yield Row("model ready, cold", "s", first.ready, group=WINDOW)
    say("streaming into the window")
    stall = measure_stall()
    what = f"GUI thread late, p99 at {PER_SECOND:.0f} tok/s"
    yield Row(what, "ms", (stall.p99_ms,), Target("at most", TARGET_MS), WINDOW)
    say("decoding with the window and without")
    ratio = measure_decode_ratio(model, runs).ratios
    yield Row("decode, window open to headless", "x", ratio, Target("at least", TARGET), WINDOW)
    yield from _dashboard(model, runs, say)


def _dashboard(model: Path, rounds: int, say: Callable[[str], None]) -> Iterator[Row]:
    say("decoding with each pane of the dashboard and without")
    cost = measure_dashboard_cost(model, rounds)
    least, most = Target("at least", DASHBOARD_TARGET), Target("at most", BUSY_TARGET)
    for pane in cost.panes:
        yield Row(f"decode, {pane} open to closed", "x", cost.ratios(pane), least, DASHBOARD)
    for pane in cost.panes:
        what = f"window's thread, {pane} more than closed"
        yield Row(what, "core", cost.more_busy(pane), most, DASHBOARD)
    yield Row("whole app at rest, open", "core", cost.idle, Target("at most", IDLE_TARGET), DASHBOARD)
