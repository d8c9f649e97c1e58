"""Takes the tables of symbols out of the app's libraries: only debuggers read them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Iterable, Iterator, Sequence

MAGIC = b"\x7fELF"
QT = ("PySide6", "shiboken6")
"""Left as they come: under their licence people may put their own in their places, and compare."""
_RUN_PATHS = ("(RPATH)", "(RUNPATH)")


class StripError(Exception):
    """Why symbols stay, in one line for a person."""


def strip_symbols(folder: Path) -> int:
    """Strip the libraries under `folder` and return how many bytes that saved.

    Those that auditwheel packed into a wheel, or gave a path to such, stay as they are: it moved their
    sections, which strip then sets down where the loader refuses them. Raises StripError.
    """
    tools = [shutil.which(name) for name in ("readelf", "strip")]
    if None in tools:
        raise StripError("there is no readelf or strip; install binutils")
    paths = [path for path in _libraries(folder) if not _is_repaired(path)]
    before = _bytes(paths)
    for path in paths:
        _run(["strip", "--strip-unneeded", str(path)])
    return before - _bytes(paths)


def _libraries(folder: Path) -> Iterator[Path]:
    """Each shared library once, without Qt's and what is in wheels' folders for packed libraries."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in QT and not name.endswith(".libs")]
        for path in (Path(place, name) for name in names if ".so" in name):
            if not path.is_symlink() and path.read_bytes()[:4] == MAGIC:
                yield path


def _is_repaired(path: Path) -> bool:
    lines = _run(["readelf", "-d", str(path)]).splitlines()
    return any(".libs" in line for line in lines if any(mark in line for mark in _RUN_PATHS))


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise StripError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


def _bytes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
