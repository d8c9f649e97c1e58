"""The text for a bug report, made by `mlxr doctor --report` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from app.errors import AppError
from app.paths import HOME_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
"""Seconds; it takes about two."""

DOCTOR = ("-m", "app", "doctor", "--report")
_BROKEN = 1
"""How it ends where something is broken, with a report all the same."""


def doctor_report(home: Path) -> str:
    """What it says of the machine and of the data in `home`, without secrets.

    Here it would ask MLX and Qt on a thread that is not theirs. Raises AppError where there is no report.
    """
    try:
        done = subprocess.run(
            [sys.executable, *DOCTOR],
            cwd=ROOT,
            env={**os.environ, HOME_VARIABLE: str(home)},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AppError("mlxr doctor was not done within a minute; try `mlxr doctor --report`") from None
    except OSError as error:
        raise AppError(f"mlxr doctor cannot be started ({error.strerror}); get MLXR again") from None
    if done.returncode not in (0, _BROKEN) or not done.stdout:
        raise AppError(f"mlxr doctor ended with {done.returncode}; try `mlxr doctor --report`")
    return done.stdout
