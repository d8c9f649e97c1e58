"""The sum that a blob of the cache is named after."""

from __future__ import annotations

import hashlib
import re
from copy import copy
from pathlib import Path

from app.downloads.stop import Stop

SHA256 = re.compile(r"[0-9a-f]{64}")
GIT = re.compile(r"[0-9a-f]{40}")
_READ = 1 << 20


class Digest:
    """Sums up a blob's bytes in order: SHA-256, or git's SHA-1, which covers the size too."""

    def __init__(self, blob: str, size: int) -> None:
        self._blob = blob
        if SHA256.fullmatch(blob):
            self._sum = hashlib.sha256()
        else:
            self._sum = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)

    def add(self, data: bytes) -> None:
        """The next bytes."""
        self._sum.update(data)

    def copy(self) -> Digest:
        """One that goes its own way from here."""
        other = copy(self)
        other._sum = self._sum.copy()
        return other

    def matches(self) -> bool:
        """Whether the bytes so far are the blob."""
        return self._sum.hexdigest() == self._blob


def is_blob(path: Path, blob: str, size: int, stop: Stop) -> bool:
    """Whether the file at `path` holds `blob`. Raises Stopped while it reads, and OSError."""
    if not path.is_file() or path.stat().st_size != size:
        return False
    digest = Digest(blob, size)
    with path.open("rb") as file:
        while data := file.read(_READ):
            stop.check()
            digest.add(data)
    return digest.matches()
