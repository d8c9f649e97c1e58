"""Whether the disk has room, before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from app.amounts import size
from app.errors import DownloadFailed

RESERVE = 2_000_000_000
"""Bytes that a download leaves free, for the system and for chats."""


def free_bytes(folder: Path) -> int:
    """Bytes that can be written to the disk of `folder`, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check_room(folder: Path, missing: int, free: Callable[[Path], int] = free_bytes) -> None:
    """Raises DownloadFailed unless `missing` bytes fit beside RESERVE on the disk of `folder`."""
    have = free(folder)
    if missing and have < missing + RESERVE:
        raise DownloadFailed(
            f"the disk of {folder} has {size(have)} free; {size(missing)} are still to come and "
            f"{size(RESERVE)} stay free: make {size(missing + RESERVE - have)} of room, then go on",
            is_resumable=True,
        )
