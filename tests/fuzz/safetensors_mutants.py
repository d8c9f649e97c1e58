"""Safetensors files whose headers lie: an 8-byte length, JSON of that length, then the tensors' bytes.

Layout: the safetensors format, https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.fuzz.mutant import Mutant

Header = dict[str, Any]

_DTYPES = "BOOL U8 I8 F8_E4M3 F8_E5M2 F4 I16 U16 F16 BF16 I32 U32 F32 F64 I64 U64 C64 Q4_K f32 X".split()
_NUMBERS = (-1, 0, 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**40)


def parse(data: bytes) -> tuple[Header, bytes]:
    """The header's JSON and the bytes behind it."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def build(header: Header | bytes, body: bytes, length: int | None = None) -> bytes:
    """A file, with a header's `length` that may be wrong."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + body


def lengths(file: str, data: bytes) -> Iterator[Mutant]:
    """The header's length as every power of two, and around its true value."""
    header, body = parse(data)
    true = int.from_bytes(data[:8], "little")
    near = [true + step for step in (-9, -8, -2, -1, 1, 2, 8, len(body), len(body) + 1)]
    for length in [*near, *(1 << bit for bit in range(64)), 2**64 - 1, 2**63 - 1, 100_000_000, 100_000_001]:
        yield Mutant("safetensors: length", file, build(header, body, length), what=f"header of {length}")


def headers(file: str, data: bytes) -> Iterator[Mutant]:
    """Lies about one tensor after the other."""
    header, body = parse(data)
    for name in [name for name in header if name != "__metadata__"]:
        for what, lie in _lies(name).items():
            yield Mutant(
                "safetensors: header", file, partial(_told, lie, header, body), what=f"{name}: {what}"
            )
        for what, raw in _raw_lies(header, name).items():
            yield Mutant("safetensors: header", file, build(raw, body), what=f"{name}: {what}")
    for what, changed in _whole(header).items():
        yield Mutant("safetensors: header", file, build(changed, body), what=what)


def _told(lie: Callable[[Header], object], header: Header, body: bytes) -> bytes:
    changed = copy.deepcopy(header)
    lie(changed)
    return build(changed, body)


def _lies(name: str) -> dict[str, Callable[[Header], object]]:
    lies: dict[str, Callable[[Header], object]] = {}

    def put(what: str, field: str, value: object) -> None:
        lies[what] = lambda header: header[name].__setitem__(field, value)

    for dtype in _DTYPES:
        put(f"dtype {dtype}", "dtype", dtype)
    for number in _NUMBERS:
        put(f"begin {number}", "data_offsets", [number, number + 4])
        put(f"end {number}", "data_offsets", [0, number])
        put(f"shape [{number}]", "shape", [number])
        put(f"shape [{number}, {number}]", "shape", [number, number])
        put(f"shape [0, {number}]", "shape", [0, number])
    for value in (None, [], {}, "x", 7, [[]], [1.5, 2], ["a", "b"], [True, False], [1] * 5000):
        for field in ("dtype", "shape", "data_offsets"):
            put(f"{field} {str(value)[:20]}", field, value)
    for field in ("dtype", "shape", "data_offsets"):
        lies[f"no {field}"] = lambda header, field=field: header[name].pop(field)
    lies["shape reversed"] = lambda header: header[name]["shape"].reverse()
    lies["shape flat"] = lambda header: header[name].__setitem__("shape", [_product(header[name]["shape"])])
    lies["gone"] = lambda header: header.pop(name)
    lies["renamed"] = lambda header: header.__setitem__("x\n\x1b[2J" + name, header.pop(name))
    lies["half a surrogate pair"] = lambda header: header.__setitem__("\ud800" + name, header.pop(name))
    lies["long name"] = lambda header: header.__setitem__(name * 1000, header.pop(name))
    lies["another's bytes"] = lambda header: header.update({name: _another(header, name)})
    lies["extra field"] = lambda header: header[name].__setitem__("pickle", "x")
    return lies


def _product(shape: list[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def _another(header: Header, name: str) -> object:
    return next(entry for other, entry in header.items() if other not in (name, "__metadata__"))


def _raw_lies(header: Header, name: str) -> dict[str, bytes]:
    """What a dictionary cannot hold: a name or a field twice, an entry of another kind."""
    entry = json.dumps(header[name])
    sound = json.dumps(header)
    other = json.dumps({**header[name], "dtype": "I32"})
    moved = json.dumps({**header[name], "shape": header[name]["shape"][::-1]})
    return {
        "twice": sound.replace(entry, f"{entry}, {json.dumps(name)}: {other}", 1).encode(),
        "twice, shapes differ": sound.replace(entry, f"{moved}, {json.dumps(name)}: {entry}", 1).encode(),
        "dtype twice": sound.replace(entry, entry[:-1] + ', "dtype": "I32"}', 1).encode(),
        "null": sound.replace(entry, "null", 1).encode(),
        "list": sound.replace(entry, "[" + entry + "]", 1).encode(),
        "deep": sound.replace(entry, "[" * 100_000 + "]" * 100_000, 1).encode(),
        "not UTF-8": sound.encode().replace(entry.encode(), b'{"dtype": "\xff"}', 1),
    }


def _whole(header: Header) -> dict[str, Header | bytes]:
    names = [name for name in header if name != "__metadata__"]
    first, last = names[0], names[-1]
    swapped = {**header, first: header[last], last: header[first]}
    return {
        "no tensors": {},
        "metadata is a number": {**header, "__metadata__": 7},
        "metadata is nested": {**header, "__metadata__": {"a": {"b": []}}},
        "metadata is long": {**header, "__metadata__": {"a": "x" * 1_000_000}},
        "a tensor called metadata": {**header, "__metadata__": header[first]},
        "more tensors of no bytes": {**header, **{f"t{i}": _none(header[first]) for i in range(5000)}},
        "two swapped": swapped,
        "spaces": json.dumps(header).encode() + b" " * 100_000,
        "BOM": b"\xef\xbb\xbf" + json.dumps(header).encode(),
        "list": b"[]",
        "UTF-16": json.dumps(header).encode("utf-16"),
    }


def _none(entry: Header) -> Header:
    return {**entry, "shape": [0], "data_offsets": [0, 0]}


def bodies(file: str, data: bytes, rng: random.Random) -> Iterator[Mutant]:
    """Numbers of every kind in the tensors: they load, and may make NaN when the model runs. For ever."""
    header, body = parse(data)
    while True:
        at = 4 * rng.randrange(len(body) // 4)
        word = rng.choice([b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", b"\x01\0\0\0"])
        yield Mutant("safetensors: numbers", file, build(header, body[:at] + word + body[at + 4 :]))
