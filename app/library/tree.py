"""Finding models in a folder and what lies below it, without reading a byte of them.

Links to folders are not followed: they lead in circles, or to a whole disk. Links to files are. Hidden
folders and files are passed over, since tools keep unfinished downloads there.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DEEPEST = 8
MOST_FOLDERS = 20_000
_PART = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_PROJECTOR = "mmproj"
_WEIGHTS = (".safetensors", ".safetensors.index.json")
_BESIDE = frozenset({"config.json", "tokenizer.json", "tokenizer.model"})


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in Hugging Face's form, or a GGUF file of one or more parts.

    Attributes:
        path: to open: the folder, or the file's first part that is there.
        title: the folder's name, or the file's without its ending and number.
        files: whose change is a change of it.
    """

    path: Path
    title: str
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """What lies in a tree; `unread` are folders that are closed to us, `is_cut` says that it goes on."""

    places: tuple[Place, ...]
    unread: tuple[Path, ...]
    is_cut: bool


def walk_tree(root: Path) -> Walk:
    """All places at or below the folder `root`, in the order of their paths. Never raises for the disk."""
    places: list[Place] = []
    unread: list[Path] = []
    waiting, seen, is_cut = [(root, 0)], 0, False
    while waiting:
        folder, depth = waiting.pop()
        seen += 1
        try:
            folders, files = _entries(folder)
        except OSError:
            unread.append(folder)
            continue
        places += _places(folder, files)
        if depth == DEEPEST or seen + len(waiting) > MOST_FOLDERS:
            is_cut = is_cut or bool(folders)
            continue
        waiting += [(folder / name, depth + 1) for name in folders]
    return Walk(tuple(sorted(places, key=lambda place: place.path)), tuple(unread), is_cut)


def place_at(file: Path) -> Place | None:
    """The GGUF model that `file` is, or is a part of; None where it is none. Raises OSError."""
    _, names = _entries(file.parent)
    return next((place for place in _gguf_places(file.parent, names) if file in place.files), None)


def is_passed_over(name: str) -> bool:
    """Whether what has this name is not looked at: hidden ones, and names that are no Unicode text."""
    return name.startswith(".") or not is_text(name)


def is_text(name: str) -> bool:
    """Whether `name` can be written down: bytes that are no UTF-8 cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entries(folder: Path) -> tuple[list[str], list[str]]:
    """Names of the folders and of the files in `folder` that are looked at. Raises OSError."""
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_passed_over(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif not entry.is_dir():
                files.append(entry.name)
    return folders, files


def _places(folder: Path, names: list[str]) -> Iterator[Place]:
    weights = [name for name in names if name.endswith(_WEIGHTS)]
    if weights and "config.json" in names:
        files = sorted({*weights, *_BESIDE.intersection(names)})
        yield Place(folder, folder.name, tuple(folder / name for name in files))
    yield from _gguf_places(folder, names)


def _gguf_places(folder: Path, names: list[str]) -> Iterator[Place]:
    parts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in sorted(names):
        if not name.lower().endswith(".gguf") or name.lower().startswith(_PROJECTOR):
            continue
        if split := _PART.fullmatch(name):
            parts[split["stem"], split["count"]].append(name)
        else:
            yield Place(folder / name, name[: -len(".gguf")], (folder / name,))
    for (stem, _), files in parts.items():
        yield Place(folder / files[0], stem, tuple(folder / name for name in files))
