"""Who is first: of several `mlxr` started on one data folder, even at once, one opens the window."""

from __future__ import annotations

import time
from pathlib import Path

from app.errors import AppError
from app.instance.address import Claim
from app.instance.client import hand_over
from app.instance.protocol import Opening

START_SECONDS = 45.0
"""That another `mlxr`, which has begun, is given until it listens: Qt is read from the disk meanwhile, on a
busy machine for long. One that has ended is not waited for.
"""

AGAIN_SECONDS = 0.05


def is_first(claim: Claim, home: Path, opening: Opening, patience: float = START_SECONDS) -> bool:
    """Whether this process is to open the window, and holds `claim`; else the one that runs shows its own.

    `opening` is to be opened there. Raises AppError where the one that holds the claim does not listen.
    """
    until = time.monotonic() + patience
    while not _take(claim):
        if hand_over(home, opening):
            return False
        if time.monotonic() > until:
            raise AppError("MLXR was started already and shows no window yet; end it and start it again")
        time.sleep(AGAIN_SECONDS)
    return True


def _take(claim: Claim) -> bool:
    try:
        return claim.take()
    except OSError:
        return True  # without a data folder there is nobody to leave it to; the window says what is wrong
