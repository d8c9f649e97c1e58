"""How much space deleting gives back: links understood, shared bytes counted once, and only if none stays."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """A file's bytes, however many names they have.

    Attributes:
        size: how many there are.
        links: names of them on the whole disk.
        paths: names of them among those asked about.
    """

    size: int
    links: int
    paths: tuple[Path, ...]


def freed_by(paths: Iterable[Path]) -> int:
    """Bytes that deleting the files and folders `paths` gives back. Raises OSError.

    A symbolic link frees nothing, and neither does a file that another name keeps alive.
    """
    return sum(entry.size for entry in entries(paths).values() if len(entry.paths) >= entry.links)


def entries(paths: Iterable[Path]) -> Mapping[tuple[int, int], Entry]:
    """The regular files at and below `paths` by device and inode, links not followed. Raises OSError."""
    found: dict[tuple[int, int], Entry] = {}
    for path in dict.fromkeys(file for one in paths for file in _below(one)):
        told = path.lstat()
        if stat.S_ISREG(told.st_mode):
            key = (told.st_dev, told.st_ino)
            before = found[key].paths if key in found else ()
            found[key] = Entry(told.st_size, told.st_nlink, (*before, path))
    return found


def _below(path: Path) -> Iterator[Path]:
    if path.is_symlink() or not path.is_dir():
        if os.path.lexists(path):
            yield path
        return
    for folder, _, files in os.walk(path, onerror=_raise):
        yield from (Path(folder) / name for name in files)


def _raise(error: OSError) -> None:
    raise error
