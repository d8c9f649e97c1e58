"""What the `tokenizers` package leaves unchecked: where it panics, or makes text without end."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from engine.errors import TokenizerError

MOST_GROWTH = 64
"""How many times as long as the text a normalizer or decoder may make it, and characters put before it."""

_MOST_PLACES = 16  # the section, and a token or two of that name
_CHARSMAP = re.compile(r'"precompiled_charsmap"\s*:\s*"([^"]*)"')
_NORMALIZER = re.compile(r'"normalizer"\s*:\s*')
_ESCAPED_LETTER = re.compile(r"\\u00(?:[4-6]|7[0-9aA])")


@contextmanager
def package_errors() -> Generator[None]:
    """Inside the `with` whatever the package raises is a ValueError: it raises bare Exception, and panics.

    A panic of its Rust code is no Exception, and would end the thread that serves everybody.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # the panic's class cannot be imported
        raise ValueError(f"{error!s:.120}") from error


def check_source(raw: bytes, where: str) -> None:
    """Check a file before the package sees it, which normalises the added tokens as it reads them.

    Only the sections in question are parsed: the vocabulary has megabytes. No writer of JSON escapes ASCII
    letters, so that the sections are found by their names.

    Raises TokenizerError for a normalizer that blows text up and for tables that are cut off.
    """
    text = raw.decode(errors="replace")
    if has_escaped_letter(text):
        raise TokenizerError(f"{where}: letters are written as escapes; download it again")
    for found in _CHARSMAP.finditer(text):
        _check_charsmap(found[1], where)
    places = [found.end() for found in _NORMALIZER.finditer(text)]
    if len(places) > _MOST_PLACES:
        raise TokenizerError(f"{where}: it names {len(places)} normalizers; download it again")
    for place in places:
        try:
            spec: object = json.JSONDecoder().raw_decode(text, place)[0]
        except (ValueError, RecursionError):
            continue  # no JSON: the package says where
        _check_growth("normalizer", spec, where)


def has_escaped_letter(text: str) -> bool:
    """Whether an ASCII letter is written as an escape in the JSON `text`; what is escaped itself is none.

    An expression that counts the backslashes before it would look at each character: 0.3 s for 11 MB.
    """
    for found in _ESCAPED_LETTER.finditer(text):
        first = found.start()
        while first and text[first - 1] == "\\":
            first -= 1
        if (found.start() - first) % 2 == 0:
            return True
    return False


def check_decoder(spec: object, where: str) -> None:
    """Raises TokenizerError for a decoder that blows text up."""
    _check_growth("decoder", spec, where)


def _check_charsmap(encoded: str, where: str) -> None:
    """A table of sentencepiece's normalisation; the package allocates what its first number says.

    Layout: 4 bytes of the trie's length, little-endian, the trie, the texts (sentencepiece's normalizer.cc).
    """
    try:
        table = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise TokenizerError(f"{where}: precompiled_charsmap is not base64; download it again") from error
    if len(table) < 4 or int.from_bytes(table[:4], "little") > len(table) - 4:
        raise TokenizerError(f"{where}: precompiled_charsmap is cut off; download it again")


def _check_growth(name: str, spec: object, where: str) -> None:
    if _growth(spec) > MOST_GROWTH:
        raise TokenizerError(f"{where}: its {name} makes texts more than {MOST_GROWTH} times as long")


def _growth(spec: object) -> int:
    """At most how many times as long, in characters, a chain of replacements makes a text."""
    if not isinstance(spec, dict):
        return 1
    part = cast("dict[str, object]", spec)
    if part.get("type") == "Sequence":
        parts = cast("list[object]", part.get("normalizers") or part.get("decoders") or [])
        return math.prod(map(_growth, parts))
    if part.get("type") == "Prepend":
        return len(str(part.get("prepend")))
    if part.get("type") != "Replace":
        return 1
    pattern = cast("dict[str, object]", part.get("pattern") or {})
    shortest, content = len(str(pattern.get("String", ""))), len(str(part.get("content")))
    return max(1, -(-content // shortest)) if shortest else 1 + content  # what can match nothing adds
