"""A damaged file of a model, and damage of the kinds that know nothing of formats."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One file of a model, damaged.

    Attributes:
        kind: of damage, such as "gguf: cut".
        file: its name; a new file where the model has none of it.
        make: its bytes, or what makes them: most mutants of a long list are never opened in a short run.
        field: what a refusal must name, where that is certain: files that happen to open answer.
        what: the damage in words.
    """

    kind: str
    file: str
    make: bytes | Callable[[], bytes]
    field: str | None = None
    what: str = ""

    @property
    def data(self) -> bytes:
        """The damaged file."""
        return self.make if isinstance(self.make, bytes) else self.make()


def blind(kind: str, file: str, data: bytes, rng: random.Random, head: int | None = None) -> Iterator[Mutant]:
    """Damage for ever: bits, bytes and stretches of the first `head` bytes, or of all, changed at random."""
    end = min(head or len(data), len(data))
    while True:
        name = rng.choice(sorted(_BLIND))
        changed = data
        for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
            changed = _BLIND[name](bytearray(changed), min(end, len(changed)), rng)
        yield Mutant(f"{kind}: {name}", file, bytes(changed), what=f"{name}, seeded")


def cuts(kind: str, file: str, data: bytes, rng: random.Random, head: int) -> Iterator[Mutant]:
    """The file cut at every place of its first `head` bytes, in any order, and then anywhere; for ever."""
    places = list(range(min(head, len(data))))
    rng.shuffle(places)
    for place in places:
        yield Mutant(f"{kind}: cut", file, data[:place], what=f"cut to {place} bytes")
    while True:
        place = rng.randrange(len(data))
        yield Mutant(f"{kind}: cut", file, data[:place], what=f"cut to {place} bytes")


def _bits(data: bytearray, end: int, rng: random.Random) -> bytearray:
    if end:
        data[rng.randrange(end)] ^= 1 << rng.randrange(8)
    return data


def _byte(data: bytearray, end: int, rng: random.Random) -> bytearray:
    if end:
        data[rng.randrange(end)] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return data


def _number(data: bytearray, end: int, rng: random.Random) -> bytearray:
    """A little-endian number of 4 or 8 bytes that is as large as numbers get, or nearly."""
    size = rng.choice([4, 8])
    if end > size:
        at = rng.randrange(end - size)
        top = 1 << (8 * size)
        value = rng.choice([0, 1, top - 1, top >> 1, (top >> 1) - 1, top >> 2, 1 << 20, rng.randrange(top)])
        data[at : at + size] = value.to_bytes(size, "little")
    return data


def _insert(data: bytearray, end: int, rng: random.Random) -> bytearray:
    at = rng.randrange(end + 1)
    data[at:at] = rng.randbytes(rng.choice([1, 2, 8, 100]))
    return data


def _drop(data: bytearray, end: int, rng: random.Random) -> bytearray:
    at = rng.randrange(end + 1)
    del data[at : at + rng.choice([1, 2, 8, 100])]
    return data


def _swap(data: bytearray, end: int, rng: random.Random) -> bytearray:
    size = rng.choice([1, 4, 8, 32])
    if end > 2 * size:
        one, other = rng.randrange(end - size), rng.randrange(end - size)
        first, second = data[one : one + size], data[other : other + size]
        data[one : one + size], data[other : other + size] = second, first
    return data


def _splice(data: bytearray, end: int, rng: random.Random) -> bytearray:
    """A stretch of the file again, somewhere else in it."""
    begin, at = rng.randrange(end + 1), rng.randrange(end + 1)
    data[at:at] = data[begin : begin + rng.choice([1, 8, 64, 512])]
    return data


_BLIND = {
    "bits": _bits,
    "byte": _byte,
    "number": _number,
    "insert": _insert,
    "drop": _drop,
    "swap": _swap,
    "splice": _splice,
}
