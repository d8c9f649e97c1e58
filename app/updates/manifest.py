"""The list of releases: what is newest, what changed, and the files. JSON, read with suspicion."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from app.updates.errors import Refused

FORMAT = 1
MOST_BYTES = 512 * 1024
MOST_ENTRIES = 100
MOST_TEXT = 64 * 1024

NEWER_FORMAT = "the list of releases is made for a newer MLXR; look at the download page"

_VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_FILE = re.compile(r"[A-Za-z0-9][\w.-]{0,120}", re.ASCII)
_SYSTEM = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MACOS = re.compile(r"\d{1,3}\.\d{1,3}")


@dataclass(frozen=True, slots=True)
class Artefact:
    """A file to download.

    Attributes:
        file: its name.
        size: in bytes.
        sha256: of its bytes, in hexadecimal.
        system: what it runs on, as "macos14-arm64".
        minimum_macos: the oldest macOS that it starts on, as "14.0"; "" for other systems.
    """

    file: str
    size: int
    sha256: str
    system: str
    minimum_macos: str = ""


@dataclass(frozen=True, slots=True)
class Notes:
    """What changed in a version: the day of its release ("2026-11-22") and Markdown."""

    version: str
    day: str
    text: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The list: its date (a later list replaces it), the newest version, notes newest first, the files."""

    date: datetime
    version: str
    notes: tuple[Notes, ...]
    artefacts: tuple[Artefact, ...]

    def is_newer_than(self, version: str) -> bool:
        """Whether it holds a release after `version`, as "0.1.0"."""
        return version_numbers(self.version) > version_numbers(version)

    def notes_since(self, version: str) -> tuple[Notes, ...]:
        """What changed after `version`, the newest first."""
        return tuple(one for one in self.notes if version_numbers(one.version) > version_numbers(version))


def version_numbers(version: str) -> tuple[int, int, int]:
    """The numbers of "1.20.3". Raises ValueError for anything else, also for a version that is no release."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"{version!r} is no version of three numbers")
    return int(found[1]), int(found[2]), int(found[3])


def encoded(manifest: Manifest) -> bytes:
    """The list as JSON, to be signed."""
    content = {
        "format": FORMAT,
        "date": manifest.date.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "version": manifest.version,
        "notes": [{"version": one.version, "day": one.day, "text": one.text} for one in manifest.notes],
        "artefacts": [_artefact_fields(one) for one in manifest.artefacts],
    }
    return json.dumps(content, indent=1, ensure_ascii=False).encode()


def decoded(payload: bytes) -> Manifest:
    """The list that JSON holds; fields it does not know are left alone. Raises Refused."""
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        raise Refused("the list of releases cannot be read: it is not JSON") from None
    fields = _object(content, "the list")
    number = fields.get("format")
    if isinstance(number, int) and not isinstance(number, bool) and number > FORMAT:
        raise Refused(NEWER_FORMAT)
    if number != FORMAT or isinstance(number, bool):
        raise _wrong("format")
    return Manifest(
        date=_moment(fields.get("date")),
        version=_text(fields, "version", _VERSION),
        notes=tuple(_notes(one) for one in _list(fields, "notes")),
        artefacts=tuple(_artefact(one) for one in _list(fields, "artefacts")),
    )


def _artefact_fields(artefact: Artefact) -> Mapping[str, str | int]:
    fields: dict[str, str | int] = {
        "file": artefact.file,
        "size": artefact.size,
        "sha256": artefact.sha256,
        "system": artefact.system,
    }
    return fields | ({"minimum_macos": artefact.minimum_macos} if artefact.minimum_macos else {})


def _artefact(value: object) -> Artefact:
    fields = _object(value, "artefacts")
    size = fields.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 1 << 40:
        raise _wrong("size")
    return Artefact(
        file=_text(fields, "file", _FILE),
        size=size,
        sha256=_text(fields, "sha256", _SHA256),
        system=_text(fields, "system", _SYSTEM),
        minimum_macos=_text(fields, "minimum_macos", _MACOS) if "minimum_macos" in fields else "",
    )


def _notes(value: object) -> Notes:
    fields = _object(value, "notes")
    text = fields.get("text")
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise _wrong("text")
    day = _text(fields, "day", re.compile(r"\d{4}-\d\d-\d\d"))
    return Notes(_text(fields, "version", _VERSION), day, text)


def _moment(value: object) -> datetime:
    try:
        return datetime.strptime(cast(str, value), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except (TypeError, ValueError):
        raise _wrong("date") from None


def _text(fields: Mapping[str, object], name: str, form: re.Pattern[str]) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise _wrong(name)
    return value


def _list(fields: Mapping[str, object], name: str) -> Sequence[object]:
    value = fields.get(name)
    if not isinstance(value, list) or len(cast(list[Any], value)) > MOST_ENTRIES:
        raise _wrong(name)
    return cast(list[object], value)


def _object(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _wrong(name)
    return cast(dict[str, object], value)


def _wrong(name: str) -> Refused:
    return Refused(f"the list of releases cannot be read: its {name} is not as it should be")
