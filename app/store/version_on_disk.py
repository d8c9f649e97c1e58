"""The version of a database as its file tells it: nothing is written, and no byte of it changes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_USER_VERSION = slice(60, 64)


def version_on_disk(path: Path) -> int | None:
    """`PRAGMA user_version` of the SQLite file at `path`; None where there is no such file, or it is broken.

    The header's layout: https://www.sqlite.org/fileformat.html#the_database_header. Where a program died
    before it moved its last writes from the log beside the file, SQLite is asked, for reading only.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER)
        has_log = _size(path.with_name(f"{path.name}-wal")) > 0
    except OSError:
        return None
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        return None
    return _asked(path) if has_log else int.from_bytes(header[_USER_VERSION], "big")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _asked(path: Path) -> int | None:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as db:
            return int(db.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error:
        return None
