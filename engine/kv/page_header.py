"""The header of a page file: what it says, how it is sealed, and for which model it holds.

A safetensors header whose metadata opens with "seal", a CRC-32 of the header's length and text with the
seal's own digits as zeros. "payload" is the CRC-32 of all that follows the header. Room is left behind the
text, so that the chats which own the pages can be written anew in place.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from engine.errors import EngineError
from engine.kv.page_data import LONGEST_RUN

LAYOUT_VERSION = 1
"""Counts up with every change of this file or of what the bytes of a page mean."""

DTYPES = {"I32": "<i4", "U32": "<u4", "F32": "<f4", "U16": "<u2", "F16": "<f2", "U8": "|u1"}
TOKENS = "tokens"

MOST_BEGIN = 1 << 20
"""Most bytes before the payload: of a file with more nothing is believed."""

NAMELESS = ""
"""Owns what was computed for no chat, which nobody forgets; it also stands for owners without room."""

_NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
_ALIGNMENT = 64
_ROOM = 256
_BEFORE_SEAL = b'{"__metadata__":{"seal":"'
_NO_SEAL = b"00000000"
_SEAL_BEGIN = 8 + len(_BEFORE_SEAL)
_SEAL_END = _SEAL_BEGIN + len(_NO_SEAL)

Chats = tuple[frozenset[str], ...]


class DamagedFile(EngineError):
    """A page file is cut short, changed, or not what its name says."""


@dataclass(frozen=True, slots=True)
class CacheIdentity:
    """What pages must have in common to be exchanged; those of another identity are never matched.

    Attributes:
        fingerprint: of the model (`engine.loading.fingerprinting`).
        dtype: of the stored keys and values, such as "bfloat16".
        page_size: tokens per page.
        kv_bits: bits of a quantised element, None where elements are stored as computed.
    """

    fingerprint: str
    dtype: str
    page_size: int
    kv_bits: int | None = None
    layout_version: int = LAYOUT_VERSION

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that stand for all of it."""
        parts = (self.fingerprint, self.dtype, self.page_size, self.kv_bits, self.layout_version)
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """An array of the payload."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of it."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What a page file says of itself; enough to index it.

    Attributes:
        identity: digest of the CacheIdentity.
        parent, keys, chats: as in SpilledRun.
        created: seconds since 1970, by the clock of then.
        payload_crc: what the payload must add up to.
        arrays: of the payload, in order; the tokens first.
        payload_begin: where the payload begins, after the header and the room behind it.
        seal: of the header as it was read or written; b"" of one that was neither.
    """

    identity: str
    parent: bytes
    keys: tuple[bytes, ...]
    chats: Chats
    created: int
    payload_crc: int
    arrays: tuple[ArrayEntry, ...]
    payload_begin: int = 0
    seal: bytes = field(default=b"", compare=False)

    @property
    def data_bytes(self) -> int:
        """Bytes of the pages' content."""
        return sum(array.nbytes for array in self.arrays[1:])

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.payload_begin + self.arrays[0].nbytes + self.data_bytes


def with_room(header: PageHeader, *, doubled: bool = False) -> PageHeader:
    """`header` with its payload where that of a new file begins, and with owners that fit before it.

    There is room for a few more chats, or with `doubled` for as much again as the header has: so a file that
    gets ever more owners is seldom written anew.
    """
    length = 8 + len(_text(header))
    while length > MOST_BEGIN:
        header = replace(header, chats=_fewer(header.chats))
        length = 8 + len(_text(header))
    length += length if doubled else _ROOM
    return replace(header, payload_begin=min(MOST_BEGIN, -(-length // _ALIGNMENT) * _ALIGNMENT))


def _fewer(chats: Chats) -> Chats:
    """Half the names of the largest set of owners; pages of the others are nobody's to forget."""
    largest = max(set(chats), key=lambda owners: (sum(map(len, owners)), sorted(owners)))
    names = sorted(largest - {NAMELESS})
    fewer = frozenset({NAMELESS, *names[: len(names) // 2]})
    return tuple(fewer if owners == largest else owners for owners in chats)


def sealed(header: PageHeader) -> tuple[bytes, PageHeader] | None:
    """The beginning of the file, `header.payload_begin` bytes, and the header with its seal.

    None when it does not fit in there. Raises ValueError for an array of a dtype that is not stored.
    """
    length = header.payload_begin - 8
    text = _text(header).ljust(length)
    if len(text) > length:
        return None
    begin = length.to_bytes(8, "little") + text
    seal = _seal(begin)
    return begin[:_SEAL_BEGIN] + seal + begin[_SEAL_END:], replace(header, seal=seal)


def parse_header(
    begin: bytes, size: int, identity: CacheIdentity | None, known: PageHeader | None = None
) -> PageHeader:
    """The header of a file of `size` bytes that begins with `begin` (all of the header, or more).

    `known` is what was read for `identity` before: with the same seal it is not parsed again. Raises
    DamagedFile when it is not one that `sealed` made, for `identity` where one is given.
    """
    length = 8 + int.from_bytes(begin[:8], "little")
    if not _SEAL_END < length <= min(len(begin), size):
        raise DamagedFile("it is cut short, or no page file")
    text = bytearray(begin[:length])
    seal = bytes(text[_SEAL_BEGIN:_SEAL_END])
    text[_SEAL_BEGIN:_SEAL_END] = _NO_SEAL
    if seal != _seal(text):
        raise DamagedFile("its header is damaged")
    if known is not None and known.seal == seal:
        found = known
    else:
        try:
            found = replace(_parse(bytes(text[8:]), length), seal=seal)
            _check(found, identity)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedFile(f"its header makes no sense ({error!r})") from error
    if found.size != size:
        raise DamagedFile(f"it has {size} bytes and must have {found.size}")
    return found


def _seal(begin: bytes | bytearray) -> bytes:
    """Of a file's beginning with zeros in the seal's place."""
    return b"%08x" % zlib.crc32(begin)


def _text(header: PageHeader) -> bytes:
    metadata = {
        "seal": _NO_SEAL.decode(),
        "payload": f"{header.payload_crc:08x}",
        "format": "mlxr-kv-pages",
        "identity": header.identity,
        "parent": header.parent.hex(),
        "keys": ",".join(key.hex() for key in header.keys),
        "chats": _chats_text(header.chats),
        "created": str(header.created),
    }
    entries: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for array in header.arrays:
        if array.dtype not in _NAMES:
            raise ValueError(
                f"{array.name} is of dtype {array.dtype}; pages are stored as {', '.join(DTYPES)}"
            )
        begin, end = end, end + array.nbytes
        entries[array.name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    return json.dumps(entries, separators=(",", ":")).encode()


def _chats_text(chats: Chats) -> str:
    """Each set of chats once, and for each page which of them: pages of a run mostly have the same."""
    sets = list(dict.fromkeys(chats))
    return json.dumps([[sorted(owners) for owners in sets], [sets.index(owners) for owners in chats]])


def _parse_chats(text: str) -> Chats:
    sets, pages = cast("tuple[list[list[str]], list[int]]", json.loads(text))
    owners = [frozenset(names) for names in sets]
    if not all(isinstance(name, str) for name in frozenset[object]().union(*owners)):
        raise ValueError("its chats have no names")
    return tuple(owners[page] for page in pages)


def _parse(text: bytes, length: int) -> PageHeader:
    entries = cast("dict[str, dict[str, object]]", json.loads(text))
    metadata = cast("dict[str, str]", entries.pop("__metadata__"))
    arrays: list[ArrayEntry] = []
    end = 0
    for name, entry in entries.items():
        dtype = np.dtype(DTYPES[cast(str, entry["dtype"])])
        array = ArrayEntry(name, dtype, tuple(cast("list[int]", entry["shape"])))
        if not all(type(length) is int and length >= 0 for length in array.shape):
            raise ValueError(f"{name} has no shape")
        begin, end = end, end + array.nbytes
        if entry["data_offsets"] != [begin, end]:
            raise ValueError(f"{name} is not where it must be")
        arrays.append(array)
    return PageHeader(
        metadata["identity"],
        bytes.fromhex(metadata["parent"]),
        tuple(bytes.fromhex(key) for key in metadata["keys"].split(",")),
        _parse_chats(metadata["chats"]),
        int(metadata["created"]),
        int(metadata["payload"], 16),
        tuple(arrays),
        length,
    )


def _check(header: PageHeader, identity: CacheIdentity | None) -> None:
    if identity is not None and header.identity != identity.digest:
        raise ValueError("it belongs to another model, dtype or layout")
    tokens, data = header.arrays[0], header.arrays[1:]
    pages, page_size = tokens.shape
    if tokens.name != TOKENS or tokens.dtype != np.int32 or not data:
        raise ValueError("it holds no tokens, or nothing else")
    if not 1 <= pages == len(header.keys) == len(header.chats) <= LONGEST_RUN:
        raise ValueError("its pages are not counted right")
    if _tokens_of(data) != {pages * page_size}:
        raise ValueError("its arrays are not of its pages")
    if identity is not None and page_size != identity.page_size:
        raise ValueError("its pages have another size")


def _tokens_of(arrays: Sequence[ArrayEntry]) -> set[int]:
    return {array.shape[2] if len(array.shape) > 2 else 0 for array in arrays}
