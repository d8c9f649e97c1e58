"""A model's fingerprint: what its KV pages depend on, read from its files in milliseconds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

from engine.loading.safetensors_file import StoredTensor, stored_tensors, unreadable

SAMPLE = 4096
"""Bytes of a tensor that are read at each of its ends."""

_WITHOUT_EFFECT = frozenset(
    "_name_or_path architectures auto_map bos_token_id dtype eos_token_id pad_token_id task_specific_params "
    "tokenizer_class torch_dtype transformers_version use_cache".split()
)


def model_fingerprint(config: Mapping[str, object], files: Iterable[Path]) -> str:
    """The fingerprint of a model in safetensors.

    Args:
        config: the parsed config.json, of which entries without effect on keys and values are left out.
        files: the safetensors files that are loaded.

    Raises ModelError when a file is no safetensors file or cannot be read.
    """
    relevant = {name: value for name, value in config.items() if name not in _WITHOUT_EFFECT}
    return tensors_fingerprint(relevant, (tensor for file in files for tensor in stored_tensors(file)))


def tensors_fingerprint(relevant: Mapping[str, object], tensors: Iterable[StoredTensor]) -> str:
    """32 hexadecimal digits: equal for the same model wherever it lies, different for another one.

    It covers the `relevant` settings and every tensor's name, dtype, shape and first and last 4 KiB. How
    tensors are spread over files does not matter. Fine-tunes differ as soon as the ends of one tensor do; a
    model edited only in the middle of tensors would not. Raises ModelError when a file cannot be read.
    """
    ordered = sorted(tensors, key=lambda tensor: tensor.name)
    digest = hashlib.blake2b(json.dumps(relevant, sort_keys=True).encode(), digest_size=16)
    with ExitStack() as stack:
        opened = {file: stack.enter_context(_open(file)) for file in {tensor.file for tensor in ordered}}
        for tensor in ordered:
            digest.update(repr((tensor.name, tensor.dtype, tensor.shape)).encode())
            digest.update(_sample(opened[tensor.file], tensor))
    return digest.hexdigest()


def _open(file: Path) -> FileIO:
    try:
        return file.open("rb", buffering=0)
    except OSError as error:
        raise unreadable(file, error) from error


def _sample(file: FileIO, tensor: StoredTensor) -> bytes:
    size = tensor.end - tensor.begin
    try:
        if size <= 2 * SAMPLE:
            return os.pread(file.fileno(), size, tensor.begin)
        begin = os.pread(file.fileno(), SAMPLE, tensor.begin)
        return begin + os.pread(file.fileno(), SAMPLE, tensor.end - SAMPLE)
    except OSError as error:
        raise unreadable(tensor.file, error) from error
