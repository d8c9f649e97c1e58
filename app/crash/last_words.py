"""A note that outlives the process which writes it, however that ends: a mapped file of two slots."""

from __future__ import annotations

import errno
import json
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

SLOT = 4096
_HEAD = struct.Struct("<III")  # number of the note, bytes, their checksum


class LastWords:
    """The newest of the notes that are taken down; for one thread at a time.

    Writing is a copy in memory: the system keeps it when the process is gone. A note that was half written is
    not read, but the one before it.
    """

    def __init__(self, path: Path) -> None:
        """Begin anew at `path`. Raises OSError.

        The file is written, not only made long: a mapped page that a full disk has no place for ends the
        process that notes something there (SIGBUS).
        """
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if os.write(handle, bytes(2 * SLOT)) < 2 * SLOT:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            self._map = mmap.mmap(handle, 2 * SLOT)
        finally:
            os.close(handle)
        self._number = 0

    def note(self, values: Mapping[str, Any]) -> None:
        """Take down `values`, which are plain; one that is too long is left out."""
        data = json.dumps(values).encode()
        if len(data) > SLOT - _HEAD.size or self._map.closed:
            return
        self._number += 1
        begin = SLOT * (self._number % 2)
        self._map[begin : begin + _HEAD.size] = _HEAD.pack(0, 0, 0)
        self._map[begin + _HEAD.size : begin + _HEAD.size + len(data)] = data
        self._map[begin : begin + _HEAD.size] = _HEAD.pack(self._number, len(data), zlib.crc32(data))

    def close(self) -> None:
        """Take down nothing any more."""
        self._map.close()


def read_last_words(path: Path) -> dict[str, Any]:
    """The newest whole note at `path`; empty where there is none."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    found: list[tuple[int, dict[str, Any]]] = []
    for begin in (0, SLOT):
        slot = content[begin : begin + SLOT]
        if len(slot) < _HEAD.size:
            continue
        number, size, checksum = _HEAD.unpack_from(slot)
        data = slot[_HEAD.size : _HEAD.size + size]
        if number and zlib.crc32(data) == checksum:
            found.append((number, cast(dict[str, Any], json.loads(data))))
    return max(found, key=lambda one: one[0])[1] if found else {}
