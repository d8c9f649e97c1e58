"""GGUF files that lie: every number of a header changed where it lies, entries doubled, parts that misfit.

Layout: ggml's docs/gguf.md, versions 2 and 3: magic, version, counts, metadata, list of tensors, data.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

from tests.fuzz.mutant import Mutant

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class Spot:
    """A number in a header, or the bytes of a text.

    Attributes:
        what: "count", "length", "type", "offset", "dimension", "dimensions", "value" or "text".
        field: what a refusal should name: the key or the tensor.
    """

    what: str
    field: str
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Map:
    """Where a file's numbers lie, and where its entries begin and end."""

    spots: list[Spot]
    entries: list[tuple[str, int, int]]
    tensors: list[tuple[str, int, int]]
    data: int


class _Reader:
    """Walks a sound file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 4
        self.spots: list[Spot] = []

    def number(self, what: str, field: str, size: int) -> int:
        self.spots.append(Spot(what, field, self.at, size))
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def text(self, field: str) -> str:
        """A text; a key or a tensor's name is known by its number until it is read."""
        length = self.number("length", field, 8)
        self.spots.append(Spot("text", field, self.at, length))
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, field: str) -> None:
        kind = self.number("type", field, 4)
        count = 1
        if kind == _ARRAY:
            kind = self.number("type", field, 4)
            count = self.number("count", field, 8)
        for index in range(count):
            before = len(self.spots)
            if kind == _STRING:
                self.text(field)
            else:
                self.number("value", field, _SIZES[kind])
            if 3 < index < count - 3:
                del self.spots[before:]  # of a table of thousands the ends will do


def read_map(data: bytes) -> Map:
    """Walk a sound file's header."""
    reader = _Reader(data)
    reader.number("type", "version", 4)
    tensors = reader.number("count", "tensor count", 8)
    entries = reader.number("count", "metadata count", 8)
    keyed: list[tuple[str, int, int]] = []
    for index in range(entries):
        begin = reader.at
        key = reader.text(f"metadata key {index}")
        reader.value(key)
        keyed.append((key, begin, reader.at))
    listed: list[tuple[str, int, int]] = []
    for index in range(tensors):
        begin = reader.at
        name = reader.text(f"tensor name {index}")
        for _ in range(reader.number("dimensions", name, 4)):
            reader.number("dimension", name, 8)
        reader.number("type", name, 4)
        reader.number("offset", name, 8)
        listed.append((name, begin, reader.at))
    return Map(reader.spots, keyed, listed, -(-reader.at // 32) * 32)


def numbers(file: str, data: bytes) -> Iterator[Mutant]:
    """Every number of the header as everything that it must not be, and some things that it may."""
    for spot in read_map(data).spots:
        if spot.what == "text":
            continue
        true = int.from_bytes(data[spot.at : spot.at + spot.size], "little")
        for value in _values(spot, true, len(data)):
            changed = partial(_put, data, spot, value.to_bytes(spot.size, "little"))
            sure = spot.field if _is_impossible(spot, value, len(data)) else None
            what = f"{spot.what} of {spot.field} = {value}"
            yield Mutant(f"GGUF: {spot.what}", file, changed, sure, what)


def _put(data: bytes, spot: Spot, raw: bytes) -> bytes:
    return data[: spot.at] + raw + data[spot.at + spot.size :]


def _values(spot: Spot, true: int, size: int) -> list[int]:
    top = (1 << (8 * spot.size)) - 1
    if spot.what == "type":
        values = [*range(45), 1 << 31, top]
    else:
        near = [true - 1, true + 1, true + 8, true + 32, true * 2, size, size - 1, size + 1]
        values = [*range(6), *near, *(1 << bit for bit in range(8, 8 * spot.size, 5))]
        values += [top, top - 31, top >> 1, (top >> 1) + 1, top - true, (top + 1 - true) & top]
    return sorted({value for value in values if 0 <= value <= top and value != true})


def _is_impossible(spot: Spot, value: int, size: int) -> bool:
    """No file of `size` bytes can hold so much."""
    return spot.what in ("count", "length", "offset", "dimension") and spot.size == 8 and value > 64 * size


def texts(file: str, data: bytes) -> Iterator[Mutant]:
    """Every text of the header, of the same length, as what is no text, no name, and no path."""
    for spot in read_map(data).spots:
        if spot.what != "text" or not spot.size:
            continue
        for fill in (b"\0", b"\xff", b"\n", b"../", b"{{", "\u202e".encode()):
            changed = partial(_put, data, spot, (fill * spot.size)[: spot.size])
            yield Mutant("GGUF: text", file, changed, what=f"text of {spot.field} is {fill!r}")


def entries(file: str, data: bytes) -> Iterator[Mutant]:
    """Entries and tensors that are there twice, gone, or in another order."""
    found = read_map(data)
    for kind, at, items in (("metadata", 16, found.entries), ("tensor", 8, found.tensors)):
        count = len(items)
        for number, (name, begin, end) in enumerate(items):
            item = data[begin:end]
            twice = _padded(data, found, begin, end, item + item)
            yield Mutant(f"GGUF: {kind} twice", file, _counted(twice, at, count + 1), name, f"{name} twice")
            gone = _padded(data, found, begin, end, b"")
            yield Mutant(f"GGUF: {kind} gone", file, _counted(gone, at, count - 1), None, f"no {name}")
            _, other, other_end = items[(number + 1) % count]
            double = _padded(data, found, begin, end, data[other:other_end])
            yield Mutant(f"GGUF: {kind} replaced", file, double, None, f"{name} is another")


def _padded(data: bytes, found: Map, begin: int, end: int, item: bytes) -> bytes:
    """The file with another `item`, its data on the alignment again."""
    head = data[:begin] + item + data[end : found.tensors[-1][2]]
    return head + b"\0" * (-len(head) % 32) + data[found.data :]


def _counted(data: bytes, at: int, count: int) -> bytes:
    return data[:at] + count.to_bytes(8, "little") + data[at + 8 :]


def added(file: str, data: bytes) -> Iterator[Mutant]:
    """Entries of every type and size, known and unknown, put in front."""
    found = read_map(data)
    begin = found.entries[0][1]
    for name, value in _extras():
        key = name.encode()
        item = len(key).to_bytes(8, "little") + key + value
        changed = _padded(data, found, begin, begin, item)
        yield Mutant("GGUF: added", file, _counted(changed, 16, len(found.entries) + 1), what=f"with {name}")


def _extras() -> Iterator[tuple[str, bytes]]:
    def u32(value: int) -> bytes:
        return value.to_bytes(4, "little")

    def u64(value: int) -> bytes:
        return value.to_bytes(8, "little")

    yield "general.alignment", u32(4) + u32(64)
    for alignment in (0, 1, 3, 31, 33, 1 << 20, 1 << 21, (1 << 32) - 1):
        yield "general.alignment", u32(4) + u32(alignment)
    yield "general.alignment", u32(10) + u64(1 << 63)
    yield "general.alignment", u32(7) + b"\1"
    yield "general.alignment", u32(6) + b"\0\0\0\x42"
    for key in ("split.count", "split.no", "split.tensors.count"):
        for number in (0, 1, 2, 65535):
            yield key, u32(2) + number.to_bytes(2, "little")
        yield key, u32(8) + u64(9) + b"../../etc"
    yield "x", u32(_ARRAY) + u32(0) + u64(1 << 63)
    yield "x", u32(_ARRAY) + u32(_ARRAY) + u64(1) + u32(0) + u64(0)
    yield "x", u32(_ARRAY) + (u32(_ARRAY) + u64(1)) * 20_000 + u32(0) + u64(0)
    yield "x", u32(_ARRAY) + u32(_STRING) + u64(50_000) + u64(0) * 50_000
    yield "x", u32(_ARRAY) + u32(0) + u64(3_000_000) + b"x" * 3_000_000
    yield "x" * 65_536, u32(0) + b"\0"
    yield "x\n\x1b[2J", u32(99)
    yield "x\ud7ff", u32(_STRING) + u64(1 << 62)
    yield "", u32(0) + b"\0"


def random_bytes(file: str, data: bytes, rng: random.Random) -> Iterator[Mutant]:
    """Several numbers of the header changed at once; for ever."""
    spots = [spot for spot in read_map(data).spots if spot.what != "text"]
    while True:
        changed = bytearray(data)
        chosen = rng.sample(spots, rng.randrange(2, 5))
        for spot in chosen:
            true = int.from_bytes(data[spot.at : spot.at + spot.size], "little")
            value = rng.choice(_values(spot, true, len(data)))
            changed[spot.at : spot.at + spot.size] = value.to_bytes(spot.size, "little")
        what = ", ".join(f"{spot.what} of {spot.field}" for spot in chosen)
        yield Mutant("GGUF: several numbers", file, bytes(changed), what=what)


def lies(file: str, data: bytes) -> Iterator[Mutant]:
    """All of the above that come to an end."""
    return chain(numbers(file, data), texts(file, data), entries(file, data), added(file, data))
