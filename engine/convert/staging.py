"""A folder that appears whole or not at all: filled beside its place under another name, then renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.errors import ConversionError


@contextmanager
def staged(target: Path) -> Generator[Path]:
    """An empty folder to fill; at the end of the block it becomes `target`, after an error it is removed.

    A killed process leaves `.NAME.partial` beside `target`; the next one for the same target clears it. Two
    at once are kept apart by a lock, where the file system has any.

    Raises ConversionError where `target` exists or another process fills it, and OSError.
    """
    if os.path.lexists(target):
        raise ConversionError(f"{target} exists already; choose another name or remove it")
    if not target.parent.is_dir():
        raise ConversionError(f"there is no folder {target.parent} for {target.name}; create it first")
    folder = target.parent / f".{target.name}.partial"
    folder.mkdir(exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _claim(handle, target)
        for left in folder.iterdir():
            left.unlink()
        try:
            yield folder
            _sync(handle)
            folder.rename(target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    finally:
        os.close(handle)


def write_durably(file: Path, data: bytes) -> None:
    """Write a new file, and wait until the disk has it. Raises OSError."""
    with file.open("wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def _claim(handle: int, target: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConversionError(f"another process is converting to {target}; wait for it") from None
    except OSError:
        return  # no locks on this file system, as on some network drives


def _sync(handle: int) -> None:
    """Put a folder's entries on the disk, where the file system can."""
    with suppress(OSError):
        os.fsync(handle)
