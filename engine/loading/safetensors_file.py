"""Where tensors lie in a safetensors file: its header, read without its data.

Layout: 8 bytes of header length (little-endian), a JSON object of tensors, their data (the safetensors
project's README, "Format").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from engine.errors import ModelError

LENGTH_BYTES = 8
_MOST_HEADER = 100_000_000  # as the safetensors library has it


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor whose data are the bytes `begin` to `end` of `file`; `dtype` in safetensors' words, "BF16"."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    begin: int
    end: int


def stored_tensors(file: Path) -> list[StoredTensor]:
    """Every tensor in `file`. Raises ModelError when it is no safetensors file or cannot be read."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(LENGTH_BYTES), "little")
            if length > _MOST_HEADER:
                raise ValueError(f"a header of {length} bytes")
            entries = cast("dict[str, dict[str, object]]", json.loads(opened.read(length)))
        entries.pop("__metadata__", None)
        data = LENGTH_BYTES + length
        size = file.stat().st_size - data
        return [_tensor(name, entry, file, data, size) for name, entry in entries.items()]
    except OSError as error:
        raise unreadable(file, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"{file} is damaged or no safetensors file ({error!s:.120}); download it again"
        ) from error


def unreadable(file: Path, error: OSError) -> ModelError:
    """The error for a file that the system does not let us read."""
    return ModelError(f"{file} cannot be read ({error.strerror}); check the disk and its permissions")


def _tensor(name: str, entry: Mapping[str, object], file: Path, data: int, size: int) -> StoredTensor:
    begin, end = cast("tuple[int, int]", entry["data_offsets"])
    if not 0 <= begin <= end <= size:
        raise ValueError(f"tensor {name} is not in it")
    shape = tuple(cast("list[int]", entry["shape"]))
    return StoredTensor(name, str(entry["dtype"]), shape, file, data + begin, data + end)
