"""The blocks that an answer's Markdown is cut into: values, each shown by a view of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown without fenced code. `number` is its first item's where it goes on with the list before it."""

    text: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a long table, as a table under the head of all of it.

    Attributes:
        widths: characters of each column, the same in all parts of the table.
        first: whether the head is to be seen.
    """

    text: str
    widths: tuple[int, ...]
    first: bool


@dataclass(frozen=True, slots=True)
class Code:
    """The inside of a fence. `language` is what was written behind it; `closed` once its end was seen."""

    text: str
    language: str
    closed: bool


Block = Prose | Rows | Code
