"""Eight hours of events, ten Stats a second, every pane in turn: memory, file and frames stay as they are."""

from __future__ import annotations

import gc
import os
import subprocess
import time
import tracemalloc
from datetime import datetime
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.dashboard.dashboard_page import PANES
from app.paths import Paths
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.hours import MAIN, Clocks
from tests.app.dashboard.hours_requests import Session, check_history
from tests.app.dashboard.hours_samples import Samples
from tests.app.dashboard.hours_window import HoursWindow

EVENING = datetime(2026, 3, 18, 20).timestamp()
TURNS = 12
ROUNDS = 8
OURS = ("*/app/dashboard/*", "*/app/history/*", "*/app/chat/*", "*/app/event_inbox.py", "*/app/bridge.py")
RESIDENT_MB = 12
"""More than after the first round: of the list of what was said, which this test keeps, about 3."""

TRACED_KB = 2000
BYTES_EACH = 450
"""A request takes 340 bytes of the file where many are kept (docs/history.md), and it has pages to spare."""

WAL_BYTES = 5_000_000
FRAME_SECONDS = 0.016


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("turn", "is_traced"), [(45, True), (300, False)])
def test_memory_file_and_frames_stay_as_they_are(
    open_desktop: OpenDesktop,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    turn: int,
    is_traced: bool,
) -> None:
    clocks, samples = Clocks(EVENING), Samples(MAIN)
    window = HoursWindow(open_desktop, qtbot, monkeypatch, tmp_path / "home", clocks, samples.hear)
    window.look("Live")
    if is_traced:
        tracemalloc.start()
    resident, traced, frames = list[float](), list[float](), list[list[float]]()
    panes = cycle(PANES)
    for _ in range(ROUNDS):
        frames.append([])
        for _ in range(TURNS):
            window.look(next(panes))
            window.run(turn)
            frames[-1].append(_frame(window))
        window.look("Live")
        samples.check(window.live, clocks, window.desktop.appearance)
        window.look("History")
        session = Session(window.engine.told, (), clocks.steady)
        ask = partial(window.ask_history, window.history)
        check_history(window.history, ask, session, clocks, window.desktop.appearance)
        window.desktop.window.show_chat()
        gc.collect()
        (traced if is_traced else resident).append(_traced_kb() if is_traced else _resident_mb())
        print(f"{len(window.engine.told)} requests; resident MB {resident}; traced kB {traced}", flush=True)
    if is_traced:
        tracemalloc.stop()
    told = len(window.engine.told)
    files = [*Paths(tmp_path / "home").history.parent.glob("history.sqlite3*")]
    size = sum(path.stat().st_size for path in files)
    print(f"history's file: {size} bytes; frames: {frames}")
    assert told > turn * TURNS * ROUNDS / 8
    assert is_traced or max(resident[1:]) - resident[0] < RESIDENT_MB
    assert not is_traced or max(traced[2:]) - max(traced[:2]) < TRACED_KB
    assert size < told * BYTES_EACH + WAL_BYTES
    assert all(sorted(hour)[len(hour) // 2] < FRAME_SECONDS for hour in frames)


def _frame(window: HoursWindow) -> float:
    """Seconds of this thread that a picture of the whole page takes."""
    began = time.thread_time()
    window.desktop.window.repaint()
    return time.thread_time() - began


def _resident_mb() -> float:
    said = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True)
    return int(said.stdout) / 1000


def _traced_kb() -> float:
    """What was allocated in the modules behind the dashboard and is still there."""
    filters = [tracemalloc.Filter(True, pattern) for pattern in OURS]
    found = tracemalloc.take_snapshot().filter_traces(filters)
    return sum(trace.size for trace in found.statistics("filename")) / 1000
