"""The parts that MLXR consists of, each with its licence, as a folder of the app holds them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import AppError

LIST = "licences.json"


@dataclass(frozen=True, slots=True)
class Part:
    """Somebody's work that MLXR is made with.

    Attributes:
        name: as its authors call it.
        version: "" where it has none of its own.
        licence: in a few words, as "MIT".
        text: the licence, and all notices that go with it.
        note: what else is to be said, as where its source is; "" for nothing.
    """

    name: str
    version: str
    licence: str
    text: str
    note: str = ""


def write_parts(parts: Sequence[Part], folder: Path) -> None:
    """Write a text of each and the list of them. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, str]] = []
    for part in parts:
        file = f"{re.sub(r'[^A-Za-z0-9.+-]+', '-', part.name)}.txt"
        (folder / file).write_text(part.text, "utf-8")
        entries.append(
            {
                "name": part.name,
                "version": part.version,
                "licence": part.licence,
                "note": part.note,
                "file": file,
            }
        )
    (folder / LIST).write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_parts(folder: Path) -> list[Part]:
    """What `write_parts` wrote. Raises AppError where something is missing."""
    try:
        entries: list[dict[str, str]] = json.loads((folder / LIST).read_text("utf-8"))
        return [
            Part(
                entry["name"],
                entry["version"],
                entry["licence"],
                (folder / entry["file"]).read_text("utf-8"),
                entry["note"],
            )
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AppError(
            f"the licences in {folder} cannot be read ({error}); install MLXR anew to have them"
        ) from None
