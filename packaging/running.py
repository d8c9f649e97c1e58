"""How the set-up runs other programs, patiently, and tells the person in one line what went wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
ATTEMPTS = 3
PAUSE_SECONDS = 5


class SetupError(Exception):
    """Why the set-up cannot go on, and what to do: one line for a person."""


def say(what: str) -> None:
    """Tell the person what is going on."""
    print(f"setup: {what}", file=sys.stderr, flush=True)


def output_of(command: Sequence[str]) -> str | None:
    """What `command` prints, stripped; None when it does not exist or fails."""
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return None
    return result.stdout.decode(errors="replace").strip() if result.returncode == 0 else None


def attempt(
    command: Sequence[str], what: str, attempts: int = ATTEMPTS, environment: Mapping[str, str] | None = None
) -> None:
    """Run `command` in the checkout, again after a pause when it fails. Raises SetupError in the end."""
    for number in range(1, attempts + 1):
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0:
            return
        if number < attempts:
            say(f"{what} failed; trying again in {PAUSE_SECONDS * number} s")
            time.sleep(PAUSE_SECONDS * number)
    raise SetupError(f"{what} failed for the reason above; if that is the network, connect and try again")
