"""What a person sets for one model, declared once: read from words and checked, kept as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from app.library.records import LibraryError, ModelSettings

MOST_SYSTEM = 100_000
"""Characters of a system prompt."""

_MOST_NAME = 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting: how its words are read, and what they must be."""

    read: Callable[[str], object]
    accepts: Callable[[Any], bool]
    expected: str


def _real(least: float, most: float = math.inf, *, above: bool = False) -> Callable[[Any], bool]:
    """From `least` to `most`; with `above` without `least` itself."""
    return lambda value: math.isfinite(value) and least <= value <= most and not (above and value == least)


def _unicode(words: str) -> str:
    """`words` as they are. Raises ValueError for bytes of another encoding that a shell handed over."""
    words.encode()
    return words


ENTRIES: Mapping[str, Entry] = {
    "context": Entry(int, lambda value: value >= 1, "a whole number of tokens, 1 or more"),
    "kv_cache": Entry(str, lambda value: value in ("full", "8", "4"), "full, 8 or 4"),
    "system": Entry(
        _unicode, lambda value: len(value) <= MOST_SYSTEM, f"UTF-8 text of at most {MOST_SYSTEM:,} characters"
    ),
    "draft_model": Entry(
        _unicode, lambda value: len(value) <= _MOST_NAME, "the name of a model that `mlxr models` lists"
    ),
    "temperature": Entry(float, _real(0), "0 or more"),
    "top_k": Entry(int, lambda value: value >= 0, "a whole number, 0 or more (0: all)"),
    "top_p": Entry(float, _real(0, 1, above=True), "above 0 and at most 1"),
    "min_p": Entry(float, _real(0, 1), "from 0 to 1"),
    "repetition_penalty": Entry(float, _real(0.01, 100), "from 0.01 to 100 (1: off)"),
}
"""Every setting by its name, in the order in which they are shown."""


def with_setting(settings: ModelSettings, name: str, words: str) -> ModelSettings:
    """`settings` with one changed; no words set it back. Raises LibraryError, naming what is possible."""
    field = name.strip().replace("-", "_")
    entry = ENTRIES.get(field)
    if entry is None:
        raise LibraryError(f"{name}: there is no such setting; there are {', '.join(map(shown, ENTRIES))}")
    if not words.strip():
        return replace(settings, **{field: getattr(ModelSettings(), field)})
    try:
        value = entry.read(words)
        is_good = entry.accepts(value)
    except (ValueError, OverflowError):
        value, is_good = None, False
    if not is_good:
        raise LibraryError(f"{shown(field)} is {words[:40]!r}; it must be {entry.expected}")
    return replace(settings, **{field: value})


def shown(field: str) -> str:
    """A setting's name as it is typed."""
    return field.replace("_", "-")


def to_json(settings: ModelSettings) -> str:
    """What is kept: those that are set."""
    return json.dumps({name: value for name, value in asdict(settings).items() if value not in (None, "")})


def from_json(text: str) -> ModelSettings:
    """What was kept; an entry that makes no sense to this version is left out."""
    settings = ModelSettings()
    for name, value in cast("dict[str, object]", json.loads(text)).items():
        try:
            settings = with_setting(settings, name, str(value))
        except LibraryError:
            continue
    return settings
