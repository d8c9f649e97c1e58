"""`mlxr bench` as a process of its own, which can be ended at any time and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from app.errors import AppError
from app.paths import HOME_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 5.0
"""Seconds that a child is given to tidy up before it is killed."""
ERROR = "error: "


class Cancelled(AppError):
    """The benchmark was stopped."""


class BenchChild:
    """Runs `mlxr` with some arguments once. `run` belongs to one thread, `stop` to any."""

    def __init__(self, home: Path) -> None:
        """`home`: the data home, where it finds kernels that were tried, and the settings."""
        self._home = home
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._killer: threading.Timer | None = None
        self._is_stopped = False

    def run(self, arguments: Sequence[str], tell: Callable[[str], None]) -> dict[str, Any]:
        """Run it; `tell` hears its lines on standard error. Returns the JSON on standard output.

        Raises Cancelled when it was stopped, and AppError with the child's last words when it failed.
        """
        with tempfile.TemporaryDirectory(prefix="mlxr-bench-") as scratch:
            out, said = Path(scratch) / "report", ""
            process = self._start(arguments, scratch, out)
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    if line.strip():
                        said = line.strip()
                        tell(said)
                process.wait()
            finally:
                self._end(process)
            return self._answer(process.returncode, said, out)

    def stop(self) -> None:
        """Have it end: asked first, killed after PATIENCE. `run` returns when it is over."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None and self._killer is None:
                _signal(self._process, signal.SIGINT)
                self._killer = threading.Timer(PATIENCE, _signal, (self._process, signal.SIGKILL))
                self._killer.daemon = True
                self._killer.start()

    def _start(self, arguments: Sequence[str], scratch: str, out: Path) -> subprocess.Popen[str]:
        environment = {**os.environ, HOME_VARIABLE: str(self._home), "TMPDIR": scratch}
        with self._lock, out.open("wb") as report:
            if self._is_stopped:
                raise Cancelled("the benchmark was stopped")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app", *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=report,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # what it starts itself ends with it
            )
            return self._process

    def _end(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._process = None
            if self._killer is not None:
                self._killer.cancel()
        _signal(process, signal.SIGKILL)  # children that outlived it, or itself, if this thread failed
        process.wait()
        if process.stderr is not None:
            process.stderr.close()

    def _answer(self, code: int, said: str, out: Path) -> dict[str, Any]:
        if self._is_stopped:
            raise Cancelled("the benchmark was stopped")
        if code:
            words = said.removeprefix(ERROR) if said.startswith(ERROR) else f"it ended with {code}; {said}"
            raise AppError(f"the benchmark failed: {words.rstrip('; ')}")
        try:
            return json.loads(out.read_text("utf-8"))
        except ValueError:
            raise AppError("the benchmark's report cannot be read; try again") from None


def _signal(process: subprocess.Popen[str], number: int) -> None:
    """To all of its session that is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
