"""The mark that a run of the window keeps in the data folder, and takes away when it ends as it should."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Marker:
    """One run.

    Attributes:
        version: of MLXR; `parts`: of what it runs on, by name.
        pid: of the process.
        began: when, in UTC, ISO 8601.
        boot: see `boot_id`.
        memory_kills: see there, when it began.
        early_crashes: runs in a row, before this one, that crashed soon after their start.
        safe: why it runs in safe mode, "" where it does not.
        is_calm: whether it has lasted long enough to be none of these.
        ending: why it is about to end, "" while nobody wants that.
    """

    version: str = ""
    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    pid: int = 0
    began: str = ""
    boot: str = ""
    memory_kills: int | None = None
    early_crashes: int = 0
    safe: str = ""
    is_calm: bool = False
    ending: str = ""


def read_marker(path: Path) -> Marker | None:
    """What was kept at `path`; None where nothing was, or nothing that can be read."""
    try:
        kept: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(kept, dict):
        return None
    values = cast(dict[str, Any], kept)
    default = asdict(Marker())
    known = {one.name: values[one.name] for one in fields(Marker) if one.name in values}
    if any(type(value) is not type(default[name]) for name, value in known.items() if name != "memory_kills"):
        return None
    count = known.get("memory_kills")
    return Marker(**known) if count is None or type(count) is int else None


def write_marker(path: Path, marker: Marker) -> None:
    """Keep it at `path`, whole or not at all; a power cut may undo it. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(marker), indent=1), "utf-8")
    new.replace(path)
