"""Control tokens as text: finding them where a template wrote them, hiding them where a person did.

Three noncharacters, which Unicode keeps for a program's own use, build two tags. `TAG` is put inside a
control token's text in a message, so that after rendering it is told from one that the template wrote.
`CONTEXT` stands before a text that is not the first of its prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.errors import InvalidRequest

CONTEXT = "\ufdd0\ufdd2\ufdd0"
TAG = "\ufdd1\ufdd2\ufdd1"
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is matched whole in text before the model's own pieces are.

    Attributes:
        special: a control token: never shown, never made from a person's text.
        lstrip, rstrip: white space to its left or right belongs to it.
    """

    text: str
    id: int
    special: bool
    lstrip: bool = False
    rstrip: bool = False


class Markers:
    """A set of added tokens that can be found in text, the longest first."""

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        self._tokens = {token.text: token for token in tokens if token.text}
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def occur_in(self, text: str) -> bool:
        """Whether any marker stands in `text`."""
        return self._pattern is not None and self._pattern.search(text) is not None

    def split(self, text: str) -> Iterator[str | int]:
        """`text` in order: the ids of markers, and the non-empty texts between them."""
        start = 0
        if self._pattern is None:
            matches: Iterable[re.Match[str]] = ()
        else:
            matches = self._pattern.finditer(text)
        for match in matches:
            token = self._tokens[match.group()]
            before = text[start : match.start()]
            if token.lstrip:
                before = before.rstrip()
            if before:
                yield before
            yield token.id
            start = match.end()
            if token.rstrip and (space := _SPACE.match(text, start)):
                start = space.end()
        if start < len(text):
            yield text[start:]

    def break_up(self, text: str) -> list[str]:
        """`text` in parts, cut after the first character of each marker, so that none is left whole.

        A marker of a single character cannot be broken and stays.
        """
        if self._pattern is None:
            return [text]
        parts: list[str] = []
        start = 0
        while match := self._pattern.search(text, start):
            cut = match.start() + 1
            parts.append(text[start:cut])
            start = cut
        return [*parts, text[start:]]


def check_text(text: str) -> None:
    """Refuse text that no tokenizer can take, with InvalidRequest."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"the text is not valid Unicode: half a surrogate pair at character {error.start + 1}; remove it"
        ) from error
    if CONTEXT in text or TAG in text:
        raise InvalidRequest(
            "the text holds noncharacters (U+FDD0 to U+FDD2) that MLXR uses itself; remove them"
        )
