"""Leaves in ICU's data what Qt reads: how languages sort. Its library of tables falls from 32 MB to a sixth.

Of ICU Qt's Core calls `ucol_*` (sorting), `ucnv_*` (converters, for encodings older than UTF-8, of which MLXR
reads none) and `ucal_*` (time zones' names, which MLXR shows nowhere): `nm -D libQt6Core.so.6`. What Qt says
of languages, dates and currencies it has itself. Where a table is missing ICU says so, and Qt does without.

The format is that of ICU's ucmndata.h: a header that gives its own length in its first 16 bits, then a count,
then a pair of offsets for each item, to its name and its bytes, counted from the count, ordered by name.
"""

from __future__ import annotations

import fnmatch
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Mapping, Sequence

KEPT = (
    "coll/*",
    "*.icu",  # characters' properties
    "*.nrm",  # composed and decomposed letters
    "icuver.res",
    "keyTypeData.res",
    "likelySubtags.res",
    "metadata.res",
    "numberingSystems.res",
    "pool.res",
    "res_index.res",
    "root.res",
    "supplementalData.res",
    "timezoneTypes.res",
    "zoneinfo64.res",
)
LIBRARY = "libicudata.so.*"
MAGIC = b"\xda\x27"  # bytes 2 and 3 of the header
FORMAT = b"CmnD"  # at byte 12
ALIGNED = 16
_SYMBOL = re.compile(r"^[0-9a-f]+ [0-9a-f]+ \w (icudt\d+_dat)$", re.MULTILINE)

SOURCE = """\
.section .rodata
.globl {symbol}
.type {symbol}, %object
.balign {aligned}
{symbol}:
.incbin "{data}"
.size {symbol}, . - {symbol}
.section .note.GNU-stack, "", %progbits
"""


class IcuError(Exception):
    """Why ICU's data stays as it is, in one line for a person."""


def shorten(folder: Path) -> int:
    """Make ICU's library of data in `folder` anew with less in it; returns how many bytes that saved.

    Raises IcuError where there is none, or it is not as this knows it.
    """
    found = sorted(folder.glob(LIBRARY))
    if len(found) != 1:
        raise IcuError(f"{folder} holds {len(found)} files {LIBRARY}; one was expected")
    (library,) = found
    symbol, start, size = _table(library)
    items = read_items(library.read_bytes()[start : start + size])
    before = library.stat().st_size
    header = library.read_bytes()[start : start + size]
    kept = {name: data for name, data in items.items() if is_kept(name)}
    _build(library, symbol, write_items(header, kept))
    return before - library.stat().st_size


def is_kept(name: str) -> bool:
    """Whether Qt may read the item, such as "icudt73l/coll/de.res"."""
    return any(fnmatch.fnmatchcase(name.partition("/")[2], pattern) for pattern in KEPT)


def read_items(table: bytes) -> dict[str, bytes]:
    """Each item of a table of ICU's, by name. Raises IcuError when it is another format."""
    if table[2:4] != MAGIC or table[12:16] != FORMAT:
        raise IcuError("ICU's data is in a format that packaging/icu_tables.py does not know")
    (base,) = struct.unpack_from("<H", table)
    (count,) = struct.unpack_from("<I", table, base)
    pairs = [struct.unpack_from("<II", table, base + 4 + 8 * item) for item in range(count)]
    ends = [start for _, start in pairs[1:]] + [len(table) - base]
    names = (table[base + name : table.index(b"\0", base + name)].decode("ascii") for name, _ in pairs)
    return {
        name: table[base + start : base + end]
        for name, (_, start), end in zip(names, pairs, ends, strict=True)
    }


def write_items(header: bytes, items: Mapping[str, bytes]) -> bytes:
    """A table of `items`, with the header that the table `header` begins with."""
    (length,) = struct.unpack_from("<H", header)
    names = b"".join(name.encode("ascii") + b"\0" for name in items)
    first_name = 4 + 8 * len(items)
    start, name_at = _aligned(first_name + len(names)), first_name
    pairs, data = b"", b"\0" * (start - first_name - len(names))
    for name, content in items.items():
        pairs += struct.pack("<II", name_at, start)
        data += content + b"\0" * (_aligned(len(content)) - len(content))
        start, name_at = start + _aligned(len(content)), name_at + len(name) + 1
    return header[:length] + struct.pack("<I", len(items)) + pairs + names + data


def _aligned(size: int) -> int:
    return -size % ALIGNED + size


def _table(library: Path) -> tuple[str, int, int]:
    """The table's symbol, where it begins in the library's file, and its length.

    ICU's library holds one section of constants, at the address that is its place in the file.
    """
    listed = _run(["nm", "--dynamic", "--print-size", "--defined-only", str(library)])
    found = _SYMBOL.search(listed)
    if found is None:
        raise IcuError(f"{library} has no table of ICU's")
    start, size = (int(word, 16) for word in found[0].split()[:2])
    return found[1], start, size


def _build(library: Path, symbol: str, table: bytes) -> None:
    """Replace a library by one that holds `table` under `symbol`."""
    with tempfile.TemporaryDirectory(prefix="mlxr-icu-") as folder:
        data, source, made = (Path(folder, name) for name in ("icu.dat", "icu.s", "icu.so"))
        data.write_bytes(table)
        source.write_text(SOURCE.format(symbol=symbol, data=data, aligned=ALIGNED), encoding="ascii")
        flags = ["-shared", "-nostdlib", f"-Wl,-soname,{library.name}", "-Wl,--strip-all"]
        _run(["g++", *flags, "-o", str(made), str(source)])
        shutil.copyfile(made, library)


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except FileNotFoundError:
        raise IcuError(f"there is no {command[0]}; install g++ and binutils") from None
    if done.returncode:
        raise IcuError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout
