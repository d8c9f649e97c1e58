"""The tokenizer's part of a GGUF file's metadata, read field by field and checked.

Fields and their meaning: gguf's docs/gguf.md ("Tokenizer"); token types: sentencepiece_model.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
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
        if not set(map(type, items)).issubset(kinds):
            place, item = next((place, item) for place, item in enumerate(items) if type(item) not in kinds)
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise self.fault(name, f"has {type(item).__name__} as its item {place}, not {wanted}")
        return items


@dataclass(frozen=True, slots=True)
class TokenTable:
    """The vocabulary: every id's text, scores where the file has them, and the ids of each kind in order."""

    texts: list[str]
    scores: list[float]
    ids: Mapping[TokenKind, list[int]]

    def of_kind(self, *kinds: TokenKind) -> list[int]:
        """Ids of the tokens of these kinds, in order."""
        return sorted(chain.from_iterable(self.ids[kind] for kind in kinds))


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
    kinds = _kinds(fields, cast("list[str]", listed))
    scores = _scores(fields, len(listed))
    texts = [cast(str, text) or f"[EMPTY_{token}]" for token, text in enumerate(listed)]
    _check_texts(fields, texts)
    return TokenTable(texts, scores, _by_kind(kinds))


def _by_kind(numbers: list[int]) -> dict[TokenKind, list[int]]:
    ids = {int(kind): list[int]() for kind in TokenKind}
    for token, number in enumerate(numbers):
        ids[number].append(token)
    return {kind: ids[kind] for kind in TokenKind}


def _check_texts(fields: Fields, texts: list[str]) -> None:
    name = f"{PREFIX}tokens"
    if len(set(texts)) < len(texts):
        seen: dict[str, int] = {}
        token = next(token for token, text in enumerate(texts) if seen.setdefault(text, token) != token)
        raise fields.fault(name, f"has {texts[token]!r:.80} twice, as {seen[texts[token]]} and as {token}")
    whole = "".join(texts)
    if CONTEXT in whole or TAG in whole:
        for token, text in enumerate(texts):
            if CONTEXT in text or TAG in text:
                raise fields.fault(name, f"has noncharacters that MLXR uses itself in token {token}")
    try:
        whole.encode("utf-8")
    except UnicodeEncodeError as error:
        raise fields.fault(name, "has text that is not valid Unicode") from error


def _kinds(fields: Fields, texts: list[str]) -> list[int]:
    """The number of each token's kind; one without text is unused, whatever the file says."""
    name = f"{PREFIX}token_type"
    listed = fields.items(name, int)
    if listed is None:
        numbers = [int(TokenKind.NORMAL)] * len(texts)
    else:
        numbers = cast("list[int]", listed)
        _check_length(fields, name, len(numbers), len(texts))
        if odd := set(numbers).difference(TokenKind):
            token = next(token for token, number in enumerate(numbers) if number in odd)
            raise fields.fault(name, f"has {numbers[token]} for token {token}, which is no token type")
    unused = int(TokenKind.UNUSED)
    return [number if text else unused for number, text in zip(numbers, texts, strict=True)]


def _scores(fields: Fields, size: int) -> list[float]:
    name = f"{PREFIX}scores"
    numbers = fields.items(name, float, int)
    if numbers is None:
        return []
    _check_length(fields, name, len(numbers), size)
    scores = list(map(float, cast("list[float]", numbers)))
    for token, score in enumerate(scores):
        if not abs(score) <= _FLOAT_MAX:
            raise fields.fault(name, f"has {score} for token {token}, which is no score")
    return scores


def _check_length(fields: Fields, name: str, length: int, size: int) -> None:
    if length != size:
        raise fields.fault(name, f"has {length} items for {size} tokens")
