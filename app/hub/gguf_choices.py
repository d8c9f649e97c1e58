"""The GGUF models among a repository's files: one choice for each, all parts of a split one together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from app.hub.choice import Choice, RepoFacts, RepoFile, measured_bits, total
from app.hub.quantizations import bits_hint, quantization_in
from engine import GGUF_FAMILIES, GGUF_TYPES

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
"""As llama.cpp's gguf-split names parts."""

_ENDING = re.compile(r"\.gguf$", re.IGNORECASE)
_NO_MODEL = re.compile(r"(^|[-._])(mmproj|imatrix|lora|adapter|vocab)([-._]|$)", re.IGNORECASE)
"""GGUF files that hold no whole language model: image encoders, statistics, additions, vocabularies."""


def gguf_choices(files: Sequence[RepoFile], facts: RepoFacts) -> Iterable[Choice]:
    """A choice for each GGUF model in `files`, whose names are safe."""
    models: dict[tuple[str, int], dict[int, RepoFile]] = defaultdict(dict)
    for file in files:
        path = PurePosixPath(file.name)
        if path.suffix.lower() != ".gguf" or _NO_MODEL.search(path.stem):
            continue
        part = _PART.fullmatch(file.name)
        if part is None:
            models[file.name, 1][1] = file
        else:
            models[part["stem"], int(part["count"])][int(part["number"])] = file
    for (stem, count), parts in models.items():
        if count == 1 or (f"{stem}.gguf", 1) not in models:  # some are there whole and in parts
            yield _choice(stem, count, parts, facts)


def _choice(stem: str, count: int, parts: dict[int, RepoFile], facts: RepoFacts) -> Choice:
    files = tuple(parts[number] for number in sorted(parts))
    named = quantization_in(stem)
    meant = named[1] if named else None
    name = named[0] if named else _ENDING.sub("", PurePosixPath(stem).name)
    weight_bytes = total(files)
    bits = measured_bits(weight_bytes, facts.parameters, meant.bits if meant else None)
    types = meant.types if meant else ()
    return Choice(
        key=name.casefold(),
        name=name,
        format="gguf",
        files=files,
        bytes=weight_bytes,
        weight_bytes=weight_bytes,
        bits=bits,
        parameters=_parameters(weight_bytes, bits),
        types=types,
        hint=meant.hint if meant else bits_hint(bits) if bits else "",
        unsupported=_missing(count, parts) or _family(facts) or _types(types),
    )


def _parameters(weight_bytes: int, bits: float | None) -> int | None:
    return round(8 * weight_bytes / bits) if bits and weight_bytes else None


def _missing(count: int, parts: dict[int, RepoFile]) -> str:
    missing = count - len([number for number in parts if 1 <= number <= count])
    if missing or len(parts) > count:
        return f"{missing or 'some'} of its {count} parts are missing or wrongly numbered in the repository"
    return ""


def _family(facts: RepoFacts) -> str:
    family = facts.gguf_family
    if family is None or family in GGUF_FAMILIES:
        return ""
    return f"{family!a:.40} models do not run here; in GGUF {', '.join(GGUF_FAMILIES)} do"


def _types(types: tuple[str, ...]) -> str:
    unread = [one for one in types if one not in GGUF_TYPES]
    return f"its {unread[0]} weights cannot be read here; choose another quantisation" if unread else ""
