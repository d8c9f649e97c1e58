"""How a `tokenizer.json` turns token texts back into bytes: its "decoder" section, read into one value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from engine.errors import TokenizerError

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's visible stand-ins for bytes: printable Latin-1 is itself, the rest is U+0100 and on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + index): byte for index, byte in enumerate(others)}


BYTE_ALPHABET = _byte_alphabet()


@dataclass(slots=True)
class TokenReader:
    """What a decoder section says.

    Attributes:
        steps: what is done to a token's text, in order.
        byte_level: tokens are written in GPT-2's byte alphabet.
        byte_fallback: tokens such as "<0x0A>" are bytes.
        leading_spaces, strip_first, separator: as in `Pieces`.
    """

    steps: list[Callable[[str], str]] = field(default_factory=list[Callable[[str], str]])
    byte_level: bool = False
    byte_fallback: bool = False
    leading_spaces: int = 0
    strip_first: bool = False
    separator: bytes = b""

    def token_bytes(self, text: str) -> bytes:
        """Bytes of the model's own token `text`."""
        if self.byte_fallback and (match := _BYTE.fullmatch(text)):
            return bytes([int(match.group(1), 16)])
        for step in self.steps:
            text = step(text)
        if self.byte_level and all(char in BYTE_ALPHABET for char in text):
            return bytes(BYTE_ALPHABET[char] for char in text)
        return text.encode("utf-8")

    def added_bytes(self, text: str) -> bytes:
        """Bytes of the added token `text`, which is written plainly also where others are not."""
        for step in self.steps:
            text = step(text)
        return text.encode("utf-8")


def read_decoder(spec: object, where: str) -> TokenReader:
    """Read a decoder section; `where` names the file in errors.

    Raises TokenizerError for a kind of decoder that no supported model family uses.
    """
    reader = TokenReader()
    if spec is None:
        reader.separator = b" "
        return reader
    fused = False
    for part in _flatten(spec):
        kind = part.get("type")
        if kind == "ByteLevel":
            reader.byte_level = True
        elif kind == "ByteFallback":
            reader.byte_fallback = True
        elif kind == "Fuse":
            fused = True
        elif kind == "Metaspace":
            reader.steps.append(_replacer(part.get("replacement"), " ", where))
            reader.strip_first = part.get("prepend_scheme") != "never"
        elif kind == "Replace":
            pattern = cast("dict[str, object]", part.get("pattern") or {})
            reader.steps.append(_replacer(pattern.get("String"), part.get("content"), where))
        elif kind == "Strip" and fused and part.get("content") == " " and part.get("stop") == 0:
            reader.leading_spaces = cast(int, part.get("start"))
        else:
            raise TokenizerError(f"{where}: its decoder {kind!r} is not one that MLXR can stream")
    return reader


def _flatten(spec: object) -> list[dict[str, object]]:
    """A decoder and, for a sequence, the decoders in it."""
    part = cast("dict[str, object]", spec)
    if part.get("type") != "Sequence":
        return [part]
    parts = cast("list[object]", part.get("decoders"))
    return [inner for item in parts for inner in _flatten(item)]


def _replacer(old: object, new: object, where: str) -> Callable[[str], str]:
    if not isinstance(old, str) or not isinstance(new, str):
        raise TokenizerError(
            f"{where}: its decoder replaces by a regular expression, which MLXR cannot stream"
        )
    return lambda text: text.replace(old, new)
