"""What is done to a model's files, file by file: damage that comes to an end, and damage that does not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tests.fuzz import gguf_mutants, json_mutants, safetensors_mutants
from tests.fuzz.mutant import Mutant, blind, cuts


def listed(folder: Path) -> Iterator[Mutant]:
    """All damage that knows the formats: every field, every number, every lie once."""
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        if file.suffix == ".json":
            yield from json_mutants.files(file.name, data)
            yield from json_mutants.fields(file.name, data, named=file.name == "config.json")
        elif file.suffix == ".safetensors":
            yield from safetensors_mutants.lengths(file.name, data)
            yield from safetensors_mutants.headers(file.name, data)
        elif file.suffix == ".gguf":
            yield from gguf_mutants.lies(file.name, data)


def endless(folder: Path, rng: random.Random) -> list[Iterator[Mutant]]:
    """Streams of random damage, several for each file."""
    return list(chain.from_iterable(_streams(file, rng) for file in sorted(folder.iterdir())))


def _streams(file: Path, rng: random.Random) -> list[Iterator[Mutant]]:
    data = file.read_bytes()
    kind = file.suffix.removeprefix(".")
    head = _head(file.suffix, data)
    streams = [
        blind(kind, file.name, data, rng, head),
        blind(kind, file.name, data, rng, head),
        cuts(kind, file.name, data, rng, head),
    ]
    if file.suffix == ".json":
        streams.append(json_mutants.at_random(file.name, data, rng))
    elif file.suffix == ".safetensors":
        streams.append(safetensors_mutants.bodies(file.name, data, rng))
    elif file.suffix == ".gguf":
        streams.append(gguf_mutants.random_bytes(file.name, data, rng))
    return streams


def _head(suffix: str, data: bytes) -> int:
    """Bytes of the file's header, where what follows are numbers that mean nothing to a reader."""
    if suffix == ".safetensors":
        return 8 + int.from_bytes(data[:8], "little")
    return gguf_mutants.read_map(data).data if suffix == ".gguf" else len(data)
