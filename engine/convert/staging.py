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

    A killed process leaves `.NAME.partial` beside `target`; the next one for the same target clears it.

    Raises ConversionError where `target` exists or another process fills it, and OSError.
    """
    if os.path.lexists(target):
        raise ConversionError(f"{target} exists already; choose another name or remove it")
    if not target.parent.is_dir():
        raise ConversionError(f"there is no folder {target.parent} for {target.name}; create it first")
    folder = target.parent / f".{target.name}.partial"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _claim(lock, target)
        _clear(folder)
        try:
            yield folder
            os.fsync(lock)
            folder.rename(target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        _sync(target.parent)
    finally:
        os.close(lock)


def write_durably(file: Path, data: bytes) -> None:
    """Write a new file, and wait until the disk has it. Raises OSError."""
    with file.open("wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def _claim(lock: int, target: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConversionError(f"another process is converting to {target}; wait for it") from None


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        entry.unlink()


def _sync(folder: Path) -> None:
    """Put the folder's entries on the disk, where the system can."""
    handle = os.open(folder, os.O_RDONLY)
    with suppress(OSError):
        os.fsync(handle)
    os.close(handle)
