"""A table for people that gives up its least important columns where the terminal is narrow."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

_GAP = "  "
_NARROWEST = 40
"""What is left of the first column at least, before others go."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        head: its heading.
        cells: its texts, one a row.
        is_number: whether they stand to the right.
        weight: columns with less go first; the first column never does.
    """

    head: str
    cells: Sequence[str]
    is_number: bool = False
    weight: int = 0

    @property
    def width(self) -> int:
        """Places on the screen."""
        return max(map(screen_width, (self.head, *self.cells)))


def screen_width(text: str) -> int:
    """Places that `text` takes: characters of East Asian scripts take two, marks above others none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def cropped(text: str, width: int) -> str:
    """The start of `text`, as much as `width` places (1 or more) take."""
    while screen_width(text) > width:
        text = text[:-2] + "…"
    return text


def terminal_width(out: TextIO) -> int | None:
    """Columns of the terminal behind `out`; None for a file or a pipe, where nothing is cut."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def table(columns: Sequence[Column], width: int | None) -> Iterable[str]:
    """The lines of the table, heading first, in at most `width` places where that can be."""
    shown = list(columns)
    first = columns[0]
    while width is not None and len(shown) > 1 and _total(shown) > max(width, 0) + _spare(first):
        shown.remove(min(shown[1:], key=lambda column: column.weight))
    widths = {id(column): column.width for column in shown}
    if width is not None:
        over = max(0, _total(shown) - width)
        widths[id(first)] = max(min(_NARROWEST, first.width), first.width - over)
    for row in range(-1, len(first.cells)):
        texts = [
            _cell(column.head if row < 0 else column.cells[row], widths[id(column)], column.is_number)
            for column in shown
        ]
        yield _GAP.join(texts).rstrip()


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)


def _spare(column: Column) -> int:
    return max(0, column.width - _NARROWEST)


def _cell(text: str, width: int, is_number: bool) -> str:
    text = cropped(text, width)
    blanks = " " * (width - screen_width(text))
    return blanks + text if is_number else text + blanks
