"""Running a measurement in a Python of its own, so that it starts cold and shares nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from app.errors import AppError

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0  # seconds


class MeasureFailed(AppError):
    """The child process of a measurement ended badly; the text ends with what it said."""


def run_child(module: str, *arguments: str, patience: float = PATIENCE) -> dict[str, Any]:
    """Run `python -m module arguments` in an empty data home without a screen; returns the JSON it prints.

    The environment's QT_QPA_PLATFORM is kept where it is set. Raises MeasureFailed when the child fails or is
    not done within `patience` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="mlxr-measure-") as home:
        environment = {"QT_QPA_PLATFORM": "offscreen", **os.environ, "MLXR_HOME": home}
        try:
            done = subprocess.run(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MeasureFailed(f"{module} was not done after {patience:.0f} s; end other programs") from None
    if done.returncode:
        raise MeasureFailed(f"{module} ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])
