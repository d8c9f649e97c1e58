"""The window's process from its start to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ASKED_EARLY = """
import os, signal, sys
from app.__main__ import program
from app.application import Application

run = Application.exec

def asked_to_end_before_it(application):
    os.kill(os.getpid(), signal.SIGTERM)
    return run()

Application.exec = asked_to_end_before_it
sys.argv = ["mlxr"]
program()
"""


def test_a_signal_just_before_the_window_s_loop_begins_ends_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKED_EARLY],
        cwd=ROOT,
        env={**os.environ, "MLXR_HOME": str(tmp_path / "home"), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
