"""Safetensors files whose layout is known before their data, so that tensors are written as they come."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from engine.loading.safetensors_file import LENGTH_BYTES

_SIZES = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "U8": 1}
_ALIGNMENT = 8
"""Where data begin: the header is filled up with blanks, as the safetensors library does."""


@dataclass(frozen=True, slots=True)
class StoredAs:
    """A tensor to be written; `dtype` in safetensors' words."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of its data."""
        return math.prod(self.shape) * _SIZES[self.dtype]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor's data begin in its file."""

    tensor: StoredAs
    begin: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One weight file: its name, the bytes before the data, and where each tensor lies."""

    name: str
    head: bytes
    places: tuple[Place, ...]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.head) + sum(place.tensor.bytes for place in self.places)


def cut_shards(units: Iterable[Sequence[StoredAs]], most_bytes: int) -> tuple[Shard, ...]:
    """Files of at most `most_bytes` of data, in order; what belongs to one unit stays in one file.

    A unit that is larger gets a file of its own.
    """
    files: list[list[StoredAs]] = []
    room = 0
    for unit in units:
        size = sum(tensor.bytes for tensor in unit)
        if not files or size > room:
            files.append([])
            room = most_bytes
        files[-1] += unit
        room -= size
    if len(files) == 1:
        return (_shard("model.safetensors", files[0]),)
    names = (f"model-{number + 1:05d}-of-{len(files):05d}.safetensors" for number in range(len(files)))
    return tuple(map(_shard, names, files))


def _shard(name: str, tensors: Sequence[StoredAs]) -> Shard:
    entries: dict[str, object] = {"__metadata__": {"format": "mlx"}}
    offset = 0
    for tensor in tensors:
        end = offset + tensor.bytes
        entries[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    head = len(header).to_bytes(LENGTH_BYTES, "little") + header
    places: list[Place] = []
    begin = len(head)
    for tensor in tensors:
        places.append(Place(tensor, begin))
        begin += tensor.bytes
    return Shard(name, head, tuple(places))


class ShardWriter:
    """Fills an open weight file. Each tensor is written in runs of rows, in any order of tensors."""

    def __init__(self, file: BinaryIO, shard: Shard) -> None:
        """Raises OSError, as every write does."""
        self._file = file
        self._next = {place.tensor.name: place.begin for place in shard.places}
        self._ends = {place.tensor.name: place.begin + place.tensor.bytes for place in shard.places}
        file.write(shard.head)

    def append(self, name: str, rows: mx.array) -> None:
        """Write the next rows of tensor `name`."""
        data = cast("npt.NDArray[np.uint8]", np.array(rows.reshape(-1).view(mx.uint8), copy=False))
        self._file.seek(self._next[name])
        self._file.write(data.data)
        self._next[name] += data.nbytes

    def finish(self) -> None:
        """Put everything on the disk."""
        assert self._next == self._ends, "every tensor is written to its end"
        self._file.flush()
        os.fsync(self._file.fileno())
