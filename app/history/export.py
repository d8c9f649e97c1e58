"""The history of requests as a CSV file, for a spreadsheet or a script."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.errors import AppError
from app.history.requests import COLUMNS


def write_csv(rows: Iterable[tuple[Any, ...]], path: Path) -> int:
    """Write rows of COLUMNS to `path`, one at a time; returns how many.

    UTF-8 with a head line; what is not known is empty. The file is there whole or not at all: one that
    existed stays as it was until then. Raises AppError when it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                count = _write(rows, csv.writer(file))
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise AppError(
            f"{path} cannot be written ({error.strerror}); choose another folder or free some space"
        ) from None
    return count


def _write(rows: Iterable[tuple[Any, ...]], writer: Any) -> int:
    writer.writerow(COLUMNS)
    count = 0
    for row in rows:
        writer.writerow(row)
        count += 1
    return count
