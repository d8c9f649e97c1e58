"""Which files hold Mac programs or libraries, and for which processors.

Layout: <mach-o/loader.h> and <mach-o/fat.h> of Apple's SDK.
"""

from __future__ import annotations

import struct
from pathlib import Path

THIN = bytes.fromhex("cffaedfe")  # MH_MAGIC_64 as little-endian processors write it
FAT = bytes.fromhex("cafebabe")  # FAT_MAGIC, big-endian; Java classes begin so too
MOST_ARCHITECTURES = 8  # a class file has its version here, which is above 40

NAMES = {0x0100000C: "arm64", 0x01000007: "x86_64"}


def architectures(path: Path) -> tuple[str, ...]:
    """The processors that a Mach-O file is for, () for any other file. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(8)
        if len(head) < 8:
            return ()
        if head[:4] == THIN:
            return (_name(struct.unpack("<I", head[4:])[0]),)
        count = struct.unpack(">I", head[4:])[0]
        if head[:4] != FAT or count > MOST_ARCHITECTURES:
            return ()
        table = file.read(20 * count)  # struct fat_arch: five words
    return tuple(_name(first) for first, *_ in struct.iter_unpack(">5I", table[: len(table) // 20 * 20]))


def _name(number: int) -> str:
    return NAMES.get(number, f"processor {number:#x}")
