"""A GGUF model's files: one, or the parts of a split one (`NAME-00001-of-00003.gguf`), read as a whole."""

from __future__ import annotations

import re
from pathlib import Path

from engine.errors import ModelError
from engine.loading.gguf.header import GgufHeader, GgufTensor, read_header

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.gguf)", re.IGNORECASE)
"""As llama.cpp's gguf-split names parts."""

_COUNT, _NUMBER, _TENSORS = "split.count", "split.no", "split.tensors.count"


def part_files(file: Path) -> list[Path]:
    """All files of the model that `file` is, or is a part of, in order; they lie beside it.

    Raises ModelError when a part is missing or the name's numbers are impossible.
    """
    named = _PART.fullmatch(file.name)
    if named is None:
        return [file]
    number, count = int(named["number"]), int(named["count"])
    if not 1 <= number <= count:
        raise ModelError(f"{file}: there is no part {number} of {count}; rename it as it was downloaded")
    files: list[Path] = []
    for index in range(1, count + 1):
        files.append(_part(file, named, index))
        if not files[-1].is_file():
            raise ModelError(f"{files[-1]} is missing; put all {count} parts of the model in one folder")
    return files


def _part(file: Path, named: re.Match[str], index: int) -> Path:
    return file.with_name(f"{named['stem']}-{index:05d}-of-{named['count']}{named['ending']}")


def read_parts(file: Path) -> GgufHeader:
    """The first part's metadata and every part's tensors.

    Raises ModelError when a part is missing, damaged, or belongs to something else.
    """
    files = part_files(file)
    first = read_header(files[0])
    metadata, tensors = first.metadata, dict(first.tensors)
    _check_part(files[0], metadata, 0, len(files))
    for index, part in enumerate(files[1:], 1):
        header = read_header(part)
        _check_part(part, header.metadata, index, len(files))
        _add(tensors, header.tensors)
    if len(files) > 1 and metadata.get(_TENSORS) != len(tensors):
        raise ModelError(
            f"{files[0]}: {_TENSORS} is {metadata.get(_TENSORS)!r:.40} and the {len(files)} parts hold "
            f"{len(tensors)}; download the model again"
        )
    return GgufHeader(metadata, tensors)


def _check_part(file: Path, metadata: dict[str, object], index: int, count: int) -> None:
    for field, expected, absent in ((_COUNT, count, 1), (_NUMBER, index, 0)):
        value = metadata.get(field, absent)
        if value == expected or (field == _COUNT and count == 1 and value == 0):
            continue
        raise ModelError(
            f"{file}: {field} is {value!r:.40}, and its name says {expected}; "
            "name parts NAME-00001-of-0000N.gguf, as they were downloaded"
        )


def _add(tensors: dict[str, GgufTensor], more: dict[str, GgufTensor]) -> None:
    for name, tensor in more.items():
        if name in tensors:
            raise ModelError(f"{tensor.file}: {name!r:.80} is in {tensors[name].file.name} too")
        tensors[name] = tensor


def gguf_file(path: Path) -> Path | None:
    """The GGUF file that `path` is, or the only model's first one in folder `path`; None if there is none.

    A folder with safetensors is a model of that form. Raises ModelError for several models in one folder, and
    OSError for one that cannot be looked into.
    """
    if not path.is_dir():
        return path if path.suffix.lower() == ".gguf" else None
    files = sorted(file for file in path.iterdir() if file.suffix.lower() == ".gguf")
    if not files or any(path.glob("*.safetensors")):
        return None
    models = sorted({_first_part(file) for file in files})
    if len(models) > 1:
        names = ", ".join(file.name for file in models[:3])
        raise ModelError(f"{path} holds {len(models)} GGUF models ({names} …); name the file of one")
    return models[0]


def _first_part(file: Path) -> Path:
    named = _PART.fullmatch(file.name)
    return file if named is None else _part(file, named, 1)


def model_name(file: Path) -> str:
    """A file's name without its ending and its number as a part."""
    named = _PART.fullmatch(file.name)
    return named["stem"] if named else file.stem
