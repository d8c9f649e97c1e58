"""A GGUF file's header, metadata and tensor list, checked against its size before anything is believed.

Layout: ggml's docs/gguf.md, versions 2 and 3. The `gguf` package reads the same, and the tests compare with
it. It is not the reader here: it believes counts and lengths, makes several numpy views of every token and
merge (see docs/gguf.md for the time and memory), and maps the file, where a cut behind its back ends the
process.
"""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gguf.constants import GGMLQuantizationType

from engine.errors import ModelError
from engine.loading.gguf.cursor import Cursor
from metal.block_types import BLOCK_TYPES, BY_NUMBER, BlockType

DENSE_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
"""Unquantised types that are read, and the bytes of an element."""

GGUF_TYPES = (*DENSE_BYTES, *(one.name for one in BLOCK_TYPES))
"""Every type of tensor that is read, by the names that GGUF files' names are made of."""

_DENSE = {0: "F32", 1: "F16", 30: "BF16"}
_VERSIONS = (2, 3)
_MOST_ALIGNMENT = 1 << 20
_LEAST_ENTRY = 8 + 4 + 1  # an empty key, a type, one byte
_LEAST_TENSOR = 8 + 4 + 8 + 4 + 8  # an empty name, one dimension
_MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where a tensor lies, and as what.

    Attributes:
        name: as the file has it ("blk.0.attn_q.weight").
        shape: rows first, the other way round than in the file.
        type_name: "F32", "F16", "BF16", or the block format's name.
        block_type: the block format; None for an unquantised tensor.
        file: that holds it.
        begin: its first byte in that file.
        bytes: that it takes there.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    block_type: BlockType | None
    file: Path
    begin: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a file says of itself. `metadata`: numbers, flags, strings, and lists of one kind of these."""

    metadata: dict[str, object]
    tensors: dict[str, GgufTensor]


def read_header(file: Path) -> GgufHeader:
    """Read and check everything but the tensors' data. Raises ModelError naming the file and the field."""
    try:
        if not file.is_file():  # a pipe would keep us waiting
            raise ModelError(f"{file} is not a file; give a .gguf file")
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            return _read(Cursor(opened, file, size), size)
    except OSError as error:
        raise ModelError(
            f"{file} cannot be read ({error.strerror}); check the disk and its permissions"
        ) from error


def read_beginning(begin: bytes, file: Path, size: int) -> dict[str, object]:
    """The metadata that lie wholly in the first bytes of a file of `size` bytes which is not here.

    Those of the model's shape are among them, all of them: every writer puts them before the tokenizer's.
    Raises ModelError naming `file` and the field, also where the bytes end too early for that.
    """
    opened = io.BytesIO(begin)
    cursor = Cursor(opened, file, size)
    metadata: dict[str, object] = {}
    try:
        _check_version(cursor)
        cursor.count("tensor count", _LEAST_TENSOR)
        for index in range(cursor.count("metadata count", _LEAST_ENTRY)):
            key = cursor.name(f"metadata key {index}")
            metadata[key] = cursor.value(key)
    except ModelError:
        if opened.tell() < len(begin):
            raise  # it is damage; else it is where the bytes end
        if not any(key.startswith("tokenizer.") for key in metadata):
            raise ModelError(f"{file}: its first {len(begin):,} bytes do not tell its shape") from None
    return metadata


def _read(cursor: Cursor, size: int) -> GgufHeader:
    _check_version(cursor)
    tensor_count = cursor.count("tensor count", _LEAST_TENSOR)
    entry_count = cursor.count("metadata count", _LEAST_ENTRY)
    metadata: dict[str, object] = {}
    for index in range(entry_count):
        key = cursor.name(f"metadata key {index}")
        if key in metadata:
            raise cursor.wrong(key, "is there twice")
        metadata[key] = cursor.value(key)
    alignment = _alignment(cursor, metadata)
    listed = [_Listed.read(cursor, index) for index in range(tensor_count)]
    data = -(-cursor.position // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    for one in listed:
        if one.name in tensors:
            raise cursor.wrong(one.name, "is there twice")
        tensors[one.name] = _placed(cursor, one, data, alignment, size)
    _check_overlaps(cursor, tensors)
    return GgufHeader(metadata, tensors)


def _check_version(cursor: Cursor) -> None:
    if cursor.take(4, "magic") != b"GGUF":
        raise ModelError(f"{cursor.path} is no GGUF file: it does not begin with GGUF")
    version = cursor.integer("version", 4)
    if version in _VERSIONS:
        return
    if int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS:
        raise ModelError(f"{cursor.path} is a big-endian GGUF file; get the little-endian one")
    raise ModelError(f"{cursor.path}: version is {version}; versions 2 and 3 are read")


def _alignment(cursor: Cursor, metadata: dict[str, object]) -> int:
    value = metadata.get("general.alignment", 32)
    if type(value) is not int or not 0 < value <= _MOST_ALIGNMENT or value & (value - 1):
        raise cursor.wrong("general.alignment", f"is {value!r:.40}; it must be a power of two")
    return value


@dataclass(frozen=True, slots=True)
class _Listed:
    """An entry of the tensor list: `dimensions` in the file's order, `offset` from the data's begin."""

    name: str
    dimensions: tuple[int, ...]
    type_number: int
    offset: int

    @classmethod
    def read(cls, cursor: Cursor, index: int) -> _Listed:
        name = cursor.name(f"tensor name {index}")
        count = cursor.integer(name, 4)
        if not 1 <= count <= _MOST_DIMENSIONS:
            raise cursor.wrong(name, f"has {count} dimensions; 1 to {_MOST_DIMENSIONS} are possible")
        dimensions = tuple(cursor.integer(name, 8) for _ in range(count))
        return cls(name, dimensions, cursor.integer(name, 4), cursor.integer(name, 8))


def _placed(cursor: Cursor, listed: _Listed, data: int, alignment: int, size: int) -> GgufTensor:
    name, shape = listed.name, listed.dimensions[::-1]
    if 0 in shape:
        raise cursor.wrong(name, f"has the shape {shape}; no dimension can be 0")
    block_type = BY_NUMBER.get(listed.type_number)
    if block_type is None:
        type_name = _dense_name(cursor, listed)
        count = math.prod(shape) * DENSE_BYTES[type_name]
    else:
        type_name = block_type.name
        try:
            count = math.prod(shape[:-1]) * block_type.bytes_per_row(shape[-1])
        except ValueError as error:
            raise cursor.wrong(name, f"is impossible: {error}") from error
    if listed.offset % alignment:
        raise cursor.wrong(name, f"begins at {listed.offset}, which is no multiple of {alignment}")
    if data + listed.offset + count > size:
        raise cursor.wrong(
            name,
            f"should end at byte {data + listed.offset + count:,} of {size:,}: the file is cut short",
        )
    return GgufTensor(name, shape, type_name, block_type, cursor.path, data + listed.offset, count)


def _dense_name(cursor: Cursor, listed: _Listed) -> str:
    number = listed.type_number
    if number in _DENSE:
        return _DENSE[number]
    try:
        named = GGMLQuantizationType(number).name
    except ValueError:
        named = f"type {number}"
    raise cursor.wrong(
        listed.name, f"is stored as {named}, which is not supported; {', '.join(GGUF_TYPES)} are"
    )


def _check_overlaps(cursor: Cursor, tensors: dict[str, GgufTensor]) -> None:
    ordered = sorted(tensors.values(), key=lambda tensor: tensor.begin)
    for before, after in pairwise(ordered):
        if before.begin + before.bytes > after.begin:
            raise cursor.wrong(after.name, f"overlaps {before.name!r:.80}")
