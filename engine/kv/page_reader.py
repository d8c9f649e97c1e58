"""Reads a file of KV pages straight into the memory where they belong, and verifies it there.

Nothing is copied: the system puts each head's tokens into their place, and they are summed while they are
in the processor's cache. So memory holds what is not proved yet; nobody may look before `read_run` returns.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from engine.errors import EngineError
from engine.kv.page_data import TOKEN_AXIS, PageMemory, keys_of_ids
from engine.kv.page_file import DATA, opened_header
from engine.kv.page_header import ArrayEntry, CacheIdentity, DamagedFile, PageHeader

_BLOCK = 1 << 18
"""Bytes that are read, and then summed while the processor's cache has them: 1 MiB takes a tenth longer."""

_MOST_PARTS = 1024
"""Parts that one call may read into: IOV_MAX of Linux and of macOS."""


class OtherPages(EngineError):
    """An undamaged file that does not hold what it was read for.

    Attributes:
        header: what it says that it holds.
    """

    def __init__(self, header: PageHeader) -> None:
        super().__init__("it holds other pages")
        self.header = header


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file is read for.

    Attributes:
        header: what it held when it was indexed.
        first: the position of the first page that is wanted.
        ids: of the pages that are wanted, one behind the other, as `id_bytes`.
        memory: where their content belongs.
    """

    header: PageHeader
    first: int
    ids: bytes
    memory: PageMemory

    @property
    def page_bytes(self) -> int:
        """Bytes of one page's ids."""
        return self.header.arrays[0].nbytes // len(self.header.keys)

    @property
    def pages(self) -> int:
        """How many are wanted."""
        return len(self.ids) // self.page_bytes


def read_run(path: Path, identity: CacheIdentity, wanted: Wanted) -> None:
    """Read what is wanted of the file at `path`, all of which is verified.

    When it raises, the memory holds zeros, or has not been touched. Raises DamagedFile when anything in the
    file is not as it was written, OtherPages when it holds others, and OSError when it cannot be read.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        header = opened_header(file, path, identity, wanted.header)
        if header.keys != wanted.header.keys:
            raise OtherPages(header)
        parts = _parts(header, wanted)
        try:
            _read_payload(file, header, wanted, parts)
        except BaseException:
            for part in chain.from_iterable(wanted.memory.values()):
                part[:] = bytes(len(part))
            raise
    finally:
        os.close(file)


def _read_payload(file: int, header: PageHeader, wanted: Wanted, parts: Sequence[memoryview]) -> None:
    tokens = bytearray(header.arrays[0].nbytes)
    os.lseek(file, header.payload_begin, os.SEEK_SET)
    if _read_summed(file, [memoryview(tokens), *parts]) != header.payload_crc:
        raise DamagedFile("its pages are damaged")
    _check_tokens(header, tokens, wanted)


def _parts(header: PageHeader, wanted: Wanted) -> list[memoryview]:
    """Where the bytes of all arrays belong, in the file's order; those of other pages nowhere of use."""
    arrays = header.arrays[1:]
    if {entry.name for entry in arrays} != {DATA + name for name in wanted.memory}:
        raise DamagedFile("its arrays are not those of this model")
    return [part for entry in arrays for part in _array_parts(entry, len(header.keys), wanted)]


def _array_parts(entry: ArrayEntry, pages: int, wanted: Wanted) -> Sequence[memoryview]:
    memory, count = wanted.memory[entry.name.removeprefix(DATA)], wanted.pages
    rows = math.prod(entry.shape[:TOKEN_AXIS])
    page_bytes = entry.nbytes // (rows * pages) if rows else 0
    each, rest = divmod(len(memory), rows) if rows else (0, 1)
    if rest or sum(map(len, memory[:each])) != count * page_bytes:
        raise DamagedFile("its arrays have not the shape of this model's")
    if count == pages:
        return memory
    before, after = wanted.first * page_bytes, (pages - wanted.first - count) * page_bytes
    unused, parts = memoryview(bytearray(rows * (before + after))), list[memoryview]()
    for row in range(rows):
        at = row * (before + after)
        parts.append(unused[at : at + before])
        parts.extend(memory[row * each : (row + 1) * each])
        parts.append(unused[at + before : at + before + after])
    return [part for part in parts if part]


def _read_summed(file: int, parts: Sequence[memoryview]) -> int:
    """Fill `parts` from where the file stands; the CRC-32 of it all."""
    crc = 0
    for block in _blocks(parts):
        _fill(file, block)
        for part in block:
            crc = zlib.crc32(part, crc)
    return crc


def _blocks(parts: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    block, size = list[memoryview](), 0
    for part in parts:
        block.append(part)
        size += len(part)
        if size >= _BLOCK or len(block) == _MOST_PARTS:
            yield block
            block, size = [], 0
    if block:
        yield block


def _fill(file: int, parts: list[memoryview]) -> None:
    missing = sum(map(len, parts))
    while missing:
        count = os.readv(file, parts)
        if not count:
            raise DamagedFile("it was cut short while it was read")
        missing -= count
        while missing and count:  # the system gave less than was asked for
            part = parts[0]
            parts = [part[count:], *parts[1:]] if count < len(part) else parts[1:]
            count = max(0, count - len(part))


def _check_tokens(header: PageHeader, stored: bytearray, wanted: Wanted) -> None:
    """That the pages which are wanted are `stored`, behind the page that their keys say.

    The keys of all but the first are known to follow: who asks has hashed them.
    """
    ids, first, page_bytes = wanted.ids, wanted.first, len(stored) // len(header.keys)
    before = header.keys[first - 1] if first else header.parent
    is_same = bytes(stored[first * page_bytes : first * page_bytes + len(ids)]) == ids
    if is_same and keys_of_ids(before, ids[:page_bytes], page_bytes) == header.keys[first : first + 1]:
        return
    if keys_of_ids(header.parent, bytes(stored), page_bytes) != header.keys:
        raise DamagedFile("its tokens are not those of its keys")
    raise OtherPages(header)
