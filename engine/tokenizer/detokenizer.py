"""The incremental detokenizer: bytes of tokens in, whole characters out, nothing shown ever changed."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pieces:
    """How one tokenizer turns tokens into bytes.

    Attributes:
        token_bytes: UTF-8 bytes (perhaps part of a character) of a token; None for one that is not shown.
        leading_spaces: most spaces dropped from the start of a text: the ones that encoding had put there.
        strip_first: drop every space of the first token as well (how the "Metaspace" decoder is defined).
        separator: bytes between two shown tokens.
    """

    token_bytes: Callable[[int], bytes | None]
    leading_spaces: int = 0
    strip_first: bool = False
    separator: bytes = b""


class StreamDetokenizer:
    """Implements `Detokenizer` for any `Pieces`.

    Invalid UTF-8 becomes one U+FFFD for each maximal part of a character (The Unicode Standard, section 3.9).
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._strippable = pieces.leading_spaces
        self._first = True

    def add(self, token: int) -> str:
        """See `Detokenizer.add`."""
        data = self._pieces.token_bytes(token)
        if data is None:
            return ""
        if self._first:
            self._first = False
            if self._pieces.strip_first:
                data = data.replace(b" ", b"")
        elif self._pieces.separator:
            data = self._pieces.separator + data
        if self._strippable:
            data = self._strip(data)
        return self._utf8.decode(data)

    def finish(self) -> str:
        """See `Detokenizer.finish`."""
        return self._utf8.decode(b"", True)

    def _strip(self, data: bytes) -> bytes:
        """`data` without the leading spaces still due; the first other byte ends the stripping."""
        rest = data.lstrip(b" ")
        dropped = min(len(data) - len(rest), self._strippable)
        self._strippable = 0 if rest else self._strippable - dropped
        return data[dropped:]


def decode_all(pieces: Pieces, ids: Iterable[int]) -> str:
    """The whole text of `ids`, by the same rules as the stream."""
    stream = StreamDetokenizer(pieces)
    parts = [stream.add(token) for token in ids]
    return "".join([*parts, stream.finish()])
