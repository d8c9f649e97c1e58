"""A model's fingerprint: what its KV pages depend on, read from its files in milliseconds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import cast

from engine.errors import ModelError

SAMPLE = 4096
"""Bytes of a tensor that are read at each of its ends."""

_MOST_HEADER = 100_000_000  # as the safetensors library has it

_WITHOUT_EFFECT = frozenset(
    "_name_or_path architectures auto_map bos_token_id dtype eos_token_id pad_token_id task_specific_params "
    "tokenizer_class torch_dtype transformers_version use_cache".split()
)


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    begin: int
    end: int


def model_fingerprint(config: Mapping[str, object], files: Iterable[Path]) -> str:
    """32 hexadecimal digits: equal for the same model wherever it lies, different for another one.

    It covers `config` (but for entries without effect on keys and values) and every tensor's name, dtype,
    shape and first and last 4 KiB. How tensors are spread over files does not matter. Fine-tunes differ as
    soon as the ends of one tensor do; a model edited only in the middle of tensors would not.

    Args:
        config: the parsed config.json.
        files: the safetensors files that are loaded.

    Raises ModelError when a file is no safetensors file or cannot be read.
    """
    tensors = sorted((t for file in files for t in _tensors(file)), key=lambda tensor: tensor.name)
    relevant = {name: value for name, value in config.items() if name not in _WITHOUT_EFFECT}
    digest = hashlib.blake2b(json.dumps(relevant, sort_keys=True).encode(), digest_size=16)
    with ExitStack() as stack:
        opened = {file: stack.enter_context(_open(file)) for file in {tensor.file for tensor in tensors}}
        for tensor in tensors:
            digest.update(repr((tensor.name, tensor.dtype, tensor.shape)).encode())
            digest.update(_sample(opened[tensor.file], tensor))
    return digest.hexdigest()


def _open(file: Path) -> FileIO:
    try:
        return file.open("rb", buffering=0)
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> ModelError:
    return ModelError(f"{file} cannot be read ({error.strerror}); check the disk and its permissions")


def _sample(file: FileIO, tensor: _Tensor) -> bytes:
    size = tensor.end - tensor.begin
    try:
        if size <= 2 * SAMPLE:
            return os.pread(file.fileno(), size, tensor.begin)
        begin = os.pread(file.fileno(), SAMPLE, tensor.begin)
        return begin + os.pread(file.fileno(), SAMPLE, tensor.end - SAMPLE)
    except OSError as error:
        raise _unreadable(tensor.file, error) from error


def _tensors(file: Path) -> list[_Tensor]:
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if length > _MOST_HEADER:
                raise ValueError(f"a header of {length} bytes")
            entries = cast("dict[str, dict[str, object]]", json.loads(opened.read(length)))
        entries.pop("__metadata__", None)
        size = file.stat().st_size - 8 - length
        return [_tensor(name, entry, file, 8 + length, size) for name, entry in entries.items()]
    except OSError as error:
        raise _unreadable(file, error) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} is damaged or no safetensors file ({error}); download it again") from error


def _tensor(name: str, entry: Mapping[str, object], file: Path, data: int, size: int) -> _Tensor:
    begin, end = cast("tuple[int, int]", entry["data_offsets"])
    if not 0 <= begin <= end <= size:
        raise ValueError(f"tensor {name} is not in it")
    shape = tuple(cast("list[int]", entry["shape"]))
    return _Tensor(name, str(entry["dtype"]), shape, file, data + begin, data + end)
