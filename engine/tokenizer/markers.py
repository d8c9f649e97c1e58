"""Control tokens as text: finding them where a template wrote them, hiding them where a person did.

Three noncharacters, which Unicode keeps for a program's own use, build two tags. `TAG` is put inside a
control token's text in a message, so that after rendering it is told from one that the template wrote.
`CONTEXT` stands before a text that is not the first of its prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.errors import InvalidRequest

CONTEXT = "\ufdd0\ufdd2\ufdd0"
TAG = "\ufdd1\ufdd2\ufdd1"
_DEEPEST = 40
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
        self._pattern = re.compile(_any_of(sorted(self._tokens))) if self._tokens else None

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


def _any_of(texts: Sequence[str], depth: int = 0) -> str:
    """An expression for the longest of `texts` (sorted) that stands somewhere.

    What several begin with is written once, so that thousands of them cost a search about as much as a few;
    `depth` bounds how deeply groups nest.
    """
    if depth == _DEEPEST:
        return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    branches: list[str] = []
    for _, group in groupby(texts, lambda text: text[:1]):
        same = list(group)
        shared = _shared(same[0], same[-1])
        rest = [text[shared:] for text in same if len(text) > shared]
        ending = f"(?:{_any_of(rest, depth + 1)})" if rest else ""
        branches.append(
            re.escape(same[0][:shared]) + ending + ("?" if rest and len(rest) < len(same) else "")
        )
    return "|".join(branches)


def _shared(first: str, last: str) -> int:
    """How many characters two texts, and all that are sorted between them, begin with alike."""
    return next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))


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
