"""Runs that really end: processes of their own, and real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.crash.boot import boot_id, memory_kills
from app.crash.inquest import SIGNALS, Inquest, inquire
from app.crash.session import RUNNING

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60


class Run:
    """A run whose data is in `folder`."""

    def __init__(self, folder: Path, how: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.app.crash.ending_child", str(folder), how],
            cwd=ROOT,
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.said() == "ready"

    def said(self) -> str:
        """The next line that it says."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait_for_a_signal(self) -> None:
        """Until it has noted one."""
        signals, until = self.folder / RUNNING / SIGNALS, time.monotonic() + PATIENCE
        while not signals.stat().st_size:
            assert time.monotonic() < until, "it noted none"

    def end(self) -> int:
        """Wait for its end; returns its code."""
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def inquest(self, boot: str | None = None, kills: int | None = None) -> Inquest:
        """How it ended, as the next start sees it; on a machine of that boot, where so many were killed."""
        now = memory_kills() if kills is None else kills
        return inquire(self.folder / RUNNING, boot_id() if boot is None else boot, now)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of crashes."""
    return tmp_path / "crashes"
