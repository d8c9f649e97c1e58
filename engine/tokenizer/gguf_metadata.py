"""The tokenizer's part of a GGUF file's metadata, read field by field and checked.

Fields and their meaning: gguf's docs/gguf.md ("Tokenizer"); token types: sentencepiece_model.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

from engine.errors import TokenizerError
from engine.tokenizer.markers import CONTEXT, TAG

PREFIX = "tokenizer.ggml."
_FLOAT_MAX = (2 - 2**-23) * 2.0**127


class TokenKind(IntEnum):
    """What `tokenizer.ggml.token_type` says of a token."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_KINDS = {int(kind): kind for kind in TokenKind}


class Fields:
    """Metadata whose fields are asked for by type; every error names the file and the field."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        """Take all of a file's metadata; `where` is the file."""
        self._values = values
        self.where = where

    def fault(self, name: str, what: str) -> TokenizerError:
        """An error about the field `name`."""
        return TokenizerError(f"{self.where}: {name} {what}; download the file again, or another conversion")

    def text(self, name: str) -> str | None:
        """A string, or None where the file says nothing."""
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self.fault(name, "is not a string")

    def flag(self, name: str) -> bool | None:
        """A truth value, or None where the file says nothing."""
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self.fault(name, "is not true or false")

    def token(self, name: str, size: int) -> int | None:
        """The id of one of `size` tokens, or None where the file says nothing."""
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(name, "is not a token id")
        if not 0 <= value < size:
            raise self.fault(name, f"is {value}, but there are {size} tokens")
        return value

    def items(self, name: str, *kinds: type) -> list[object] | None:
        """A list whose items are of `kinds`, or None where the file says nothing."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.fault(name, "is not a list")
        items = cast("list[object]", value)
        for place, item in enumerate(items):
            if type(item) not in kinds:
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise self.fault(name, f"has {type(item).__name__} as its item {place}, not {wanted}")
        return items


@dataclass(frozen=True, slots=True)
class TokenTable:
    """The vocabulary: text and kind of every id, and scores where the file has them."""

    texts: list[str]
    kinds: list[TokenKind]
    scores: list[float]

    def of_kind(self, *kinds: TokenKind) -> list[int]:
        """Ids of the tokens of these kinds, in order."""
        return [token for token, kind in enumerate(self.kinds) if kind in kinds]


def read_table(fields: Fields, rows: int) -> TokenTable:
    """The tokens, checked against each other and against the model's embedding rows.

    A token without text, which nothing can mean, becomes an unused one called "[EMPTY_7]".

    Raises TokenizerError, naming the field.
    """
    name = f"{PREFIX}tokens"
    listed = fields.items(name, str)
    if not listed:
        raise fields.fault(name, "is missing or empty")
    if len(listed) > rows:
        raise fields.fault(name, f"has {len(listed)} tokens, but the model has {rows} embedding rows")
    kinds = _kinds(fields, len(listed))
    scores = _scores(fields, len(listed))
    texts = [cast(str, text) or f"[EMPTY_{token}]" for token, text in enumerate(listed)]
    kinds = [kind if text else TokenKind.UNUSED for kind, text in zip(kinds, listed, strict=True)]
    _check_texts(fields, texts)
    return TokenTable(texts, kinds, scores)


def _check_texts(fields: Fields, texts: list[str]) -> None:
    name = f"{PREFIX}tokens"
    seen: dict[str, int] = {}
    for token, text in enumerate(texts):
        twin = seen.setdefault(text, token)
        if twin != token:
            raise fields.fault(name, f"has {text!r:.80} twice, as {twin} and as {token}")
        if CONTEXT in text or TAG in text:
            raise fields.fault(name, f"has noncharacters that MLXR uses itself in token {token}")
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError as error:
        raise fields.fault(name, "has text that is not valid Unicode") from error


def _kinds(fields: Fields, size: int) -> list[TokenKind]:
    name = f"{PREFIX}token_type"
    numbers = fields.items(name, int)
    if numbers is None:
        return [TokenKind.NORMAL] * size
    _check_length(fields, name, len(numbers), size)
    for token, number in enumerate(numbers):
        if number not in _KINDS:
            raise fields.fault(name, f"has {number} for token {token}, which is no token type")
    return [_KINDS[cast(int, number)] for number in numbers]


def _scores(fields: Fields, size: int) -> list[float]:
    name = f"{PREFIX}scores"
    numbers = fields.items(name, float, int)
    if numbers is None:
        return []
    _check_length(fields, name, len(numbers), size)
    scores = [float(cast(float, number)) for number in numbers]
    for token, score in enumerate(scores):
        if not abs(score) <= _FLOAT_MAX:
            raise fields.fault(name, f"has {score} for token {token}, which is no score")
    return scores


def _check_length(fields: Fields, name: str, length: int, size: int) -> None:
    if length != size:
        raise fields.fault(name, f"has {length} items for {size} tokens")
