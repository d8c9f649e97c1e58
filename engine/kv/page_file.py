"""The file of a run of KV pages: safetensors whose header and payload are sealed, never trusted unread.

    8 bytes      length of the header
    header       see engine/kv/page_header.py
    tokens       int32 (pages, page_size)
    data.NAME    the arrays of PageData, wider elements first, so that each is aligned

CRC-32 because it is the fastest checksum in Python's library: 2.2 GB/s here, against 1.2 for SHA-256 with the
processor's own instructions and 1.0 for blake2b (64 MiB in memory, one core of an Intel Xeon, Python 3.11).
It finds every burst of up to 32 bits and all but one in 4 billion of other damage; against a forger no
checksum helps, and the tokens are compared as well.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import zlib
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import cast

import numpy as np

from engine.kv.page_data import Array, PageData, SpilledRun, chain_keys
from engine.kv.page_header import (
    TOKENS,
    ArrayEntry,
    CacheIdentity,
    Chats,
    DamagedFile,
    PageHeader,
    length_for,
    parse_header,
    sealed,
)

_DATA = "data."
_BLOCK = 1 << 20
_MOST_HEADER = _BLOCK - 8
_F_RDADVISE, _MOST_ADVISED = 44, (1 << 31) - 1
"""Of macOS's fcntl: `struct radvisory` is an offset of 64 bits and a count of 32 (fcntl.h)."""


class FileBuffer:
    """Memory that files are read into, one after the other: what was there before is overwritten.

    The next file finds it in the processor's cache, and the system need not give memory for each.
    """

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, size: int) -> Array:
        """Its first `size` bytes, uint8 (size,)."""
        if self._memory.size < size:
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A page file, read and verified: its header, ids (pages, page_size) and content."""

    header: PageHeader
    tokens: tuple[tuple[int, ...], ...]
    data: PageData


@dataclass(frozen=True, slots=True)
class EncodedRun:
    """A run as the bytes of its file, in order; large arrays are not copied."""

    header: PageHeader
    buffers: tuple[memoryview, ...]


def encode(run: SpilledRun, identity: CacheIdentity, created: int) -> EncodedRun:
    """The file of `run`. Raises ValueError for arrays of a dtype that is not stored."""
    named = [(_DATA + name, np.ascontiguousarray(array)) for name, array in run.data.arrays.items()]
    named.sort(key=lambda item: (-item[1].itemsize, item[0]))
    payload = [(TOKENS, np.asarray(run.tokens, "<i4")), *named]
    buffers = [array.reshape(-1).view(np.uint8).data for _, array in payload]
    crc = 0
    for buffer in buffers:
        crc = zlib.crc32(buffer, crc)
    arrays = tuple(ArrayEntry(name, array.dtype, array.shape) for name, array in payload)
    header = PageHeader(identity.digest, run.parent, run.keys, run.chats, created, crc, arrays)
    header = replace(header, payload_begin=length_for(header))
    begin = sealed(header)
    assert begin is not None
    return EncodedRun(header, (memoryview(begin), *buffers))


def read_header(path: Path, identity: CacheIdentity | None) -> PageHeader:
    """The header of the file at `path`; the payload is not read.

    Raises DamagedFile as parse_header does, or when the file is not named by its last key; OSError when it
    cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        begin = os.read(file.fileno(), 4096)
        length = 8 + int.from_bytes(begin[:8], "little")
        if len(begin) < length <= min(size, 8 + _MOST_HEADER):
            begin += os.read(file.fileno(), length - len(begin))
    return _named(path, parse_header(begin, size, identity))


def read_run(path: Path, identity: CacheIdentity, into: FileBuffer) -> StoredRun:
    """The whole file at `path`, in one sequential read, verified; the arrays are views of `into`.

    Raises DamagedFile when anything in it is not as it was written; OSError when it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        buffer = into.take(os.fstat(file.fileno()).st_size)
        view = buffer.data
        filled = _fill(file, view[:_BLOCK])
        header = _named(path, parse_header(view[:filled], len(view), identity))
        crc = zlib.crc32(view[header.payload_begin : filled])
        while filled < len(view):  # a block is summed while it is still in the processor's cache
            block = view[filled : filled + _BLOCK]
            if not (count := _fill(file, block)):
                raise DamagedFile("it was cut short while it was read")
            crc = zlib.crc32(block[:count], crc)
            filled += count
    if crc != header.payload_crc:
        raise DamagedFile("its pages are damaged")
    return _stored(header, buffer, identity)


def fetch(path: Path) -> None:
    """Let the system read the file into its own memory meanwhile; where it does not, nothing is lost."""
    try:
        with path.open("rb", buffering=0) as file:
            if sys.platform == "darwin":
                size = os.fstat(file.fileno()).st_size
                fcntl.fcntl(file, _F_RDADVISE, struct.pack("qi4x", 0, min(size, _MOST_ADVISED)))
            else:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
    except OSError:
        return


def write_chats(path: Path, header: PageHeader, chats: Chats) -> bool:
    """Write anew whose the pages of the file at `path` are; the file is the one that `header` was read from.

    False, and nothing is written, when it is another file now, or when there are too many chats for the room
    behind the header. Whoever dies in the middle leaves a damaged file, which is seen. Raises OSError.
    """
    begin = sealed(replace(header, chats=chats))
    if begin is None:
        return False
    with path.open("r+b", buffering=0) as file:
        try:
            found = parse_header(
                os.pread(file.fileno(), header.payload_begin, 0), os.fstat(file.fileno()).st_size, None
            )
        except DamagedFile:
            return False
        if replace(found, chats=header.chats) != header:
            return False
        file.write(begin)
    return True


def _stored(header: PageHeader, buffer: Array, identity: CacheIdentity) -> StoredRun:
    arrays: dict[str, Array] = {}
    begin = header.payload_begin
    for entry in header.arrays:
        end = begin + entry.nbytes
        arrays[entry.name] = buffer[begin:end].view(entry.dtype).reshape(entry.shape)
        begin = end
    tokens = tuple(tuple(page) for page in cast("list[list[int]]", arrays.pop(TOKENS).tolist()))
    if chain_keys(header.parent, tokens) != header.keys:
        raise DamagedFile("its tokens are not those of its keys")
    data = {name.removeprefix(_DATA): array for name, array in arrays.items()}
    return StoredRun(header, tokens, PageData(data, identity.page_size))


def _named(path: Path, header: PageHeader) -> PageHeader:
    if path.stem != header.keys[-1].hex():
        raise DamagedFile("it does not hold the page that it is named for")
    return header


def _fill(file: FileIO, view: memoryview) -> int:
    """Read until `view` is full or the file ends; bytes read."""
    filled = 0
    while filled < len(view) and (count := file.readinto(view[filled:])):
        filled += count
    return filled
