"""Pictures of a crash told, of its report, of safe mode, of trials, and of a fresh install."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.crash.inquest import Ending
from app.crash.marker import Marker
from app.crash.safe_mode import why_safe
from app.model_location import GUIDE
from app.wiring import CLOSE_SECONDS, Desktop
from engine import KernelTrials
from tests.app.conftest import OpenDesktop
from tests.app.crash.test_desk import Stage
from tests.app.test_screenshots import FOLDER, save

STACKS = """\
Fatal Python error: Aborted

Thread 0x000000016f5b7000 (most recent call first):
  File "/Applications/MLXR.app/Contents/Frameworks/engine/serving.py", line 214 in work
  File "/Applications/MLXR.app/Contents/Frameworks/engine/engine.py", line 118 in _run

Current thread 0x00000001f2b4c200 (most recent call first):
  File "/Applications/MLXR.app/Contents/Frameworks/app/running.py", line 52 in run_window
"""


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.long)])
def look(request: pytest.FixtureRequest) -> str:
    """Both themes."""
    return request.param


@pytest.fixture
def desktop(open_desktop: OpenDesktop, look: str) -> Desktop:
    """A fresh install."""
    desktop = open_desktop(model=GUIDE)
    desktop.appearance.choose("light" if look == "light" else "dark")
    return desktop


def test_a_fresh_install(desktop: Desktop, look: str) -> None:
    save(desktop, f"{look}-first-run")
    desktop.trials.handle(KernelTrials(str(GUIDE), 3, 17, is_running=True, seconds_left=22.0))
    desktop.trials.flush()
    save(desktop, f"{look}-first-run-trials")
    desktop.window.resize(640, 480)
    image = save(desktop, f"{look}-first-run-trials-640")
    assert image.width() == 640


def test_a_crash_and_safe_mode(desktop: Desktop, qtbot: QtBot, look: str, tmp_path: Path) -> None:
    stage = Stage(desktop, tmp_path / "home", why_safe(False, False, 2))
    what = "MLXR crashed: a part of it gave up (SIGABRT)."
    marker = Marker("0.1.0", {"python": "3.11.7", "mlx": "0.32.4"}, 7, "2026-01-02T03:04:05+00:00")
    stage.session.left = Ending("fatal signal", what, marker, STACKS), tmp_path / "left"
    stage.desk.start()
    qtbot.waitUntil(stage.desk.banner.isVisible)
    save(desktop, f"{look}-crash-safe")
    desktop.window.resize(640, 480)
    save(desktop, f"{look}-crash-safe-640")
    stage.desk.banner.acted.emit()
    dialog = stage.dialog()
    qtbot.waitUntil(dialog.isVisible)
    assert dialog.grab().save(str(FOLDER / f"{look}-crash-report.png"))
    stage.desk.close(CLOSE_SECONDS)
