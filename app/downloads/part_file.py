"""The bytes of a file that is not whole yet, under a name that the next run finds again.

Beside the bytes lies a mark, JSON: what the server called the file, and how many bytes surely are on the
disk itself. A process that dies loses nothing of what was written; only after a power cut may bytes beyond
the mark be wrong, which the sum shows at the end. Then, and where a wrong byte came, bytes are replaced in
their place, and the mark says how far that is done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

ENDING = ".mlxr-part"
SYNC_EVERY = 64 << 20
"""Bytes between two writes through to the disk."""
_READ = 1 << 20


class PartFile:
    """The part of blob `blob` (its final path) that is there. Open until `close`; one thread at a time.

    Attributes:
        length: bytes written.
        safe: bytes that were on the disk itself at the last mark, and are not known to be wrong.
        etag: the server's validator when the first byte came, "" while unknown.
    """

    def __init__(self, blob: Path) -> None:
        """Open the part, or begin it. Raises OSError."""
        self._blob = blob
        self._path = part_of(blob)
        self._mark = mark_of(blob)
        self._new_mark = self._mark.with_name(self._mark.name + ".new")
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        self.length = os.fstat(self._handle).st_size
        self.etag, self.safe = _read_mark(self._mark)

    def put(self, at: int, data: bytes) -> bool:
        """Write `data` at `at`, into the system's cache, unless it is there. Whether other bytes were.

        Nothing in front of `at` may be missing. Raises OSError, such as a full disk.
        """
        there = os.pread(self._handle, len(data), at) if at < self.length else b""
        if there != data:
            self._write(at, data)
        if at + len(data) - self.safe >= SYNC_EVERY:
            self.sync(at + len(data))
        return not data.startswith(there)

    def _write(self, at: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._handle, view, at)
            at += written
            self.length = max(self.length, at)
            view = view[written:]

    def distrust(self, behind: int) -> None:
        """Some byte behind `behind` is wrong: note it, for whoever goes on after this process."""
        if self.safe > behind:
            self.safe = behind
            self._write_mark()

    def clear(self) -> None:
        """Forget everything."""
        os.ftruncate(self._handle, 0)
        self.length = self.safe = 0
        self.etag = ""
        self._write_mark()

    def remember(self, etag: str) -> None:
        """Note what the server calls the file."""
        if etag != self.etag:
            self.etag = etag
            self._write_mark()

    def sync(self, length: int) -> None:
        """Bring everything to the disk itself, and note that `length` bytes are as they came last."""
        os.fsync(self._handle)
        self.safe = length
        self._write_mark()

    def chunks(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes from `start` to `stop`, as far as they are there."""
        while start < stop and (data := os.pread(self._handle, min(_READ, stop - start), start)):
            start += len(data)
            yield data

    def become_blob(self) -> None:
        """Take the blob's name: from here on the cache has it, and nobody looks at the mark again."""
        os.fsync(self._handle)
        self._mark.unlink(missing_ok=True)
        self._new_mark.unlink(missing_ok=True)
        self._path.replace(self._blob)

    def close(self) -> None:
        """Close the file; the part stays."""
        os.close(self._handle)

    def _write_mark(self) -> None:
        """Whole or not at all: it is replaced."""
        self._new_mark.unlink(missing_ok=True)
        with self._new_mark.open("x", encoding="utf-8") as file:
            json.dump({"etag": self.etag, "safe": self.safe}, file)
        self._new_mark.replace(self._mark)


def part_of(blob: Path) -> Path:
    """Where the part of `blob` lies."""
    return blob.with_name(blob.name + ENDING)


def mark_of(blob: Path) -> Path:
    """Where the mark of its part lies."""
    return blob.with_name(f"{blob.name}{ENDING}.json")


def length_of_part(blob: Path) -> int:
    """Bytes that are there of `blob`."""
    try:
        return part_of(blob).stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _read_mark(path: Path) -> tuple[str, int]:
    """The mark, or that of a part nothing is known about: a mark is a help, never needed."""
    try:
        mark = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return "", 0
    if not isinstance(mark, dict):
        return "", 0
    values = cast(dict[str, object], mark)
    etag, safe = values.get("etag"), values.get("safe")
    return (etag if isinstance(etag, str) else ""), (safe if isinstance(safe, int) and safe >= 0 else 0)
