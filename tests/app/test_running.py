"""The window's process from its start to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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

ASKED_WHILE_QT_LOADS = """
import signal, sys
from app.__main__ import program

def ask_once(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "feature_import":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.setprofile(ask_once)
sys.argv = ["mlxr"]
program()
"""

ASKED_WHILE_IT_IS_SHOWN = """
import signal, sys
from app.__main__ import program
from app.chat.status_line import StatusLine

resize = StatusLine.resizeEvent

def ask_once(line, event):
    StatusLine.resizeEvent = resize
    signal.raise_signal(signal.SIGINT)
    resize(line, event)

StatusLine.resizeEvent = ask_once
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["mlxr"]
program()
"""


@pytest.mark.parametrize("script", [ASKED_WHILE_QT_LOADS, ASKED_WHILE_IT_IS_SHOWN, ASKED_EARLY])
def test_a_signal_before_the_window_s_loop_begins_ends_it(tmp_path: Path, script: str) -> None:
    """Python that Qt calls runs inside of it, where an exception is lost, or aborts the process."""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "MLXR_HOME": str(tmp_path / "home"), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
