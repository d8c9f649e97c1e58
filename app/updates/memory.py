"""What is remembered of updates between starts: a small JSON file, and nothing breaks where it is gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from app.updates.manifest import version_numbers
from app.whole_file import write_whole

PAUSE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known.

    Attributes:
        asked: when the server was asked last; None before the first time.
        seen: the date of the newest list that was taken; an older one is not taken any more.
        newest: the version that list named; "" where none was seen.
        ran: the version of MLXR that ran last; "" before the first start.
    """

    asked: datetime | None = None
    seen: datetime | None = None
    newest: str = ""
    ran: str = ""

    def is_due(self, now: datetime) -> bool:
        """Whether a day went by since the last question; a clock that was set back does not put it off."""
        return self.asked is None or not self.asked <= now < self.asked + PAUSE


class MemoryFile:
    """Reads and writes it. A file that cannot be read counts as none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Memory:
        """What is remembered."""
        try:
            content = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return Memory()
        if not isinstance(content, dict):
            return Memory()
        fields = cast(dict[str, Any], content)
        return Memory(
            asked=_moment(fields.get("asked")),
            seen=_moment(fields.get("seen")),
            newest=_version(fields.get("newest")),
            ran=_version(fields.get("ran")),
        )

    def note(self, **values: Any) -> Memory:
        """Remember these fields beside the others. Returns all of it. Raises OSError."""
        memory = replace(self.read(), **values)
        fields: Mapping[str, str] = {
            "asked": memory.asked.isoformat() if memory.asked else "",
            "seen": memory.seen.isoformat() if memory.seen else "",
            "newest": memory.newest,
            "ran": memory.ran,
        }
        write_whole(self._path, json.dumps(fields, indent=1) + "\n")
        return memory


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(cast(str, value))
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _version(value: object) -> str:
    try:
        version_numbers(cast(str, value))
    except (TypeError, ValueError):
        return ""
    return cast(str, value)
