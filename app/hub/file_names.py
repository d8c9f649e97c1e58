"""Which names of a repository's files may become files here: a stranger chose them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

LONGEST_PART = 255
"""Bytes of a file's or folder's name that every file system here takes."""

LONGEST_NAME = 1000
"""Bytes of a whole path inside a repository."""


def refusals(names: Iterable[str]) -> dict[str, str]:
    """The names that are refused, each with the reason in words. The others are safe below any folder."""
    names = list(names)
    refused = {name: why for name in names if (why := _refusal(name))}
    kept = [name for name in names if name not in refused]
    folders = {_folded(folder) for folder in _folders(kept)}
    files = Counter(_folded(name) for name in kept)
    for name in kept:
        own = _folded(name)
        if files[own] > 1:
            refused[name] = "differs from another name only in case or spelling: many disks cannot hold both"
        elif own in folders:
            refused[name] = "is a file and a folder at once"
    return refused


def _folders(names: Iterable[str]) -> set[str]:
    """Every folder that some of `names` lie in."""
    return {str(folder) for name in names for folder in PurePosixPath(name).parents}


def _folded(name: str) -> str:
    """What a disk that minds neither case nor the spelling of accents would call it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _refusal(name: str) -> str:
    parts = name.split("/")
    if not name.isprintable():
        return "has characters that cannot be printed"
    if "\\" in name:
        return "has a backslash, which some systems read as a folder"
    if name.startswith("/") or (len(parts[0]) == 2 and parts[0].endswith(":")):
        return "names a place on the disk, not in the repository"
    if ".." in parts:
        return "leads out of its folder"
    if not all(parts) or "." in parts:
        return "has an empty part"
    if any(part != part.strip() for part in parts):
        return "begins or ends with a space"
    lengths = [len(part.encode()) for part in parts]
    if max(lengths) > LONGEST_PART or sum(lengths) > LONGEST_NAME:
        return "is too long for a disk"
    return ""
