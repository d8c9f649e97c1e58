"""Notes of deleted chats in the SSD cache's folder: files whose names say all that there is to say.

    FOLDER/DIGEST.forgotten     a chat that was deleted, until no file says that it is its own

They hold nothing, and nothing that is in them is read. So one is there or it is not: neither a write that was
cut short nor a power cut makes one that means nobody.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_NOTE = re.compile(r"([0-9a-f]{32})\.forgotten")
_MODE = 0o600


@lru_cache(1 << 14)
def digest_of(chat: str) -> str:
    """32 hexadecimal digits that stand for `chat` in names of files."""
    return hashlib.blake2b(json.dumps(chat).encode(), digest_size=16).hexdigest()


def is_note(name: str) -> bool:
    """Whether a file of that name is a note."""
    return _NOTE.fullmatch(name) is not None


class Notes:
    """The notes in the folder `root`. Needs no lock."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path_of(self, digest: str) -> Path:
        """The note of a chat."""
        return self._root / f"{digest}.forgotten"

    def write(self, digests: Iterable[str]) -> None:
        """Write down that these were deleted. A power cut may lose it, until `sync`; a crash does not.

        Raises OSError.
        """
        for digest in digests:
            os.close(os.open(self.path_of(digest), os.O_WRONLY | os.O_CREAT, _MODE))

    def read(self) -> set[str]:
        """Chats that were deleted, by any process. What cannot be listed is not there."""
        try:
            with os.scandir(self._root) as entries:
                notes = [(entry, found) for entry in entries if (found := _NOTE.fullmatch(entry.name))]
                return {found[1] for entry, found in notes if entry.is_file(follow_symlinks=False)}
        except OSError:
            return set()

    def remove(self, digests: Iterable[str]) -> None:
        """No file is theirs any more. Raises OSError."""
        for digest in digests:
            self.path_of(digest).unlink(missing_ok=True)

    def sync(self) -> None:
        """Have what is written down stay through a power cut. Raises OSError."""
        sync(self._root)


def sync(path: Path) -> None:
    """Have a file, or what a folder lists, be on the disk. Raises OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
