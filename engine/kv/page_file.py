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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.kv.page_data import TOKEN_AXIS, Array, SpilledRun
from engine.kv.page_header import (
    MOST_BEGIN,
    TOKENS,
    ArrayEntry,
    CacheIdentity,
    Chats,
    DamagedFile,
    PageHeader,
    parse_header,
    sealed,
    with_room,
)

DATA = "data."
"""Before the names of all arrays but the tokens."""

_F_RDADVISE, _MOST_ADVISED = 44, (1 << 31) - 1
"""Of macOS's fcntl: `struct radvisory` is an offset of 64 bits and a count of 32 (fcntl.h)."""


@dataclass(frozen=True, slots=True)
class EncodedRun:
    """A run as the bytes of its file, in order; large arrays are not copied."""

    header: PageHeader
    buffers: tuple[memoryview, ...]


def encode(run: SpilledRun, identity: CacheIdentity, created: int) -> EncodedRun:
    """The file of `run`. Raises ValueError for arrays of a dtype that is not stored."""
    named = [(DATA + name, np.ascontiguousarray(array)) for name, array in run.data.arrays.items()]
    named.sort(key=lambda item: (-item[1].itemsize, item[0]))
    payload = [(TOKENS, np.asarray(run.tokens, "<i4")), *named]
    return _encoded(PageHeader(identity.digest, run.parent, run.keys, run.chats, created, 0, ()), payload)


def head(path: Path, header: PageHeader, chats: Chats) -> EncodedRun:
    """The first pages of the file at `path`, which says `header`: as many as `chats` names owners of.

    Raises DamagedFile where its payload is not what it was, and OSError.
    """
    with path.open("rb") as file:
        file.seek(header.payload_begin)
        payload = file.read()
    if zlib.crc32(payload) != header.payload_crc:
        raise DamagedFile("its pages are damaged")
    pages, kept, end = len(header.keys), len(chats), 0
    arrays = list[tuple[str, Array]]()
    for entry in header.arrays:
        begin, end = end, end + entry.nbytes
        array = np.frombuffer(memoryview(payload)[begin:end], entry.dtype).reshape(entry.shape)
        is_tokens = entry.name == TOKENS
        part = array[:kept] if is_tokens else array[:, :, : array.shape[TOKEN_AXIS] // pages * kept]
        arrays.append((entry.name, np.ascontiguousarray(part)))
    return _encoded(replace(header, keys=header.keys[:kept], chats=chats), arrays)


def _encoded(header: PageHeader, payload: Sequence[tuple[str, Array]]) -> EncodedRun:
    """The file of arrays, in their order; `header` is to say the rest."""
    buffers = [array.reshape(-1).view(np.uint8).data for _, array in payload]
    crc = 0
    for buffer in buffers:
        crc = zlib.crc32(buffer, crc)
    arrays = tuple(ArrayEntry(name, array.dtype, array.shape) for name, array in payload)
    return _begun_with(with_room(replace(header, payload_crc=crc, arrays=arrays)), buffers)


def roomier(path: Path, header: PageHeader) -> EncodedRun:
    """The file at `path` with `header` in place of its own, and room for as many more chats.

    Its pages are those that it has, whole or not: who reads them will see. Raises OSError.
    """
    with path.open("rb") as file:
        file.seek(header.payload_begin)
        payload = file.read()
    return _begun_with(with_room(header, doubled=True), [memoryview(payload)])


def _begun_with(header: PageHeader, payload: Sequence[memoryview]) -> EncodedRun:
    with_seal = sealed(header)
    assert with_seal is not None  # there is room
    begin, header = with_seal
    return EncodedRun(header, (memoryview(begin), *payload))


def read_header(path: Path, identity: CacheIdentity | None) -> PageHeader:
    """The header of the file at `path`; the payload is not read.

    Raises DamagedFile as parse_header does, or when the file is not named by its last key; OSError when it
    cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        return opened_header(file.fileno(), path, identity)


def opened_header(
    file: int, path: Path, identity: CacheIdentity | None, known: PageHeader | None = None
) -> PageHeader:
    """The same of the file descriptor of `path`, which goes on where it was; `known` as of parse_header."""
    size = os.fstat(file).st_size
    begin = os.pread(file, 4096, 0)
    length = 8 + int.from_bytes(begin[:8], "little")
    if len(begin) < length <= min(size, MOST_BEGIN):
        begin += os.pread(file, length - len(begin), len(begin))
    header = parse_header(begin, size, identity, known)
    if path.stem != header.keys[-1].hex():
        raise DamagedFile("it does not hold the page that it is named for")
    return header


def fetch(path: Path) -> None:
    """Let the system read the file into its own memory meanwhile; where it does not, nothing is lost."""
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            if sys.platform == "darwin":
                size = os.fstat(file).st_size
                fcntl.fcntl(file, _F_RDADVISE, struct.pack("qi4x", 0, min(size, _MOST_ADVISED)))
            else:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(file)
    except OSError:
        return


def write_chats(path: Path, header: PageHeader, chats: Chats) -> PageHeader | None:
    """Write anew whose the pages of the file at `path` are, which says `header`.

    Returns what it says then; None, and nothing is written, when there are too many chats for the room behind
    the header. Whoever dies in the middle leaves a damaged file, which is seen. Raises OSError.
    """
    with_seal = sealed(replace(header, chats=chats))
    if with_seal is None:
        return None
    begin, written = with_seal
    with path.open("r+b", buffering=0) as file:
        while begin:  # the system may take less than it was given, and say why only then
            begin = begin[file.write(begin) :]
    return written
