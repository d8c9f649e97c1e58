"""The log's entries, newest first, by level and by words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from app.log import KEPT_FILES, LEVELS


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was logged.

    Attributes:
        time: in UTC, ISO 8601 with milliseconds; "" where a line cannot be read, whose words it then is.
        level: one of LEVELS, or "critical".
        part: the module that says it.
        process, thread: where.
        trace: the traceback, or "".
    """

    time: str
    level: str
    part: str
    process: int
    thread: str
    words: str
    trace: str = ""


def entries(path: Path, level: str = "debug", words: str = "") -> Iterator[Entry]:
    """Entries of `level` or graver in which each of `words` occurs, in the log at `path` and those before it.

    Raises OSError where a file cannot be read, ValueError for a level that is none.
    """
    least, wanted = LEVELS.index(level), words.casefold().split()
    for file in (path, *(path.with_name(f"{path.name}.{age}") for age in range(1, KEPT_FILES + 1))):
        if not file.exists():
            continue
        for line in reversed(file.read_text(encoding="utf-8", errors="replace").splitlines()):
            entry = _entry(line)
            text = f"{entry.part} {entry.words} {entry.trace}".casefold()
            if _gravity(entry) >= least and all(word in text for word in wanted):
                yield entry


def _entry(line: str) -> Entry:
    try:
        told = cast(dict[str, Any], json.loads(line))
        return Entry(**told)
    except (ValueError, TypeError):  # cut off by a full disk, or written by hand
        return Entry("", "error", "", 0, "", line)


def _gravity(entry: Entry) -> int:
    return LEVELS.index(entry.level) if entry.level in LEVELS else len(LEVELS)
