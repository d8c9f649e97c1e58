"""Lists and tables without a blank line that would be safe to cut at: cut between two items or two rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.chat.blocks import Prose, Rows
from app.chat.markdown_tables import begins_table, table_parts

_ITEM = re.compile(r"( {0,3})([-*+]|(\d{1,9})([.)]))( {1,4})(?=\S)")
_BREAK = re.compile(r" {0,3}(#{1,6}(\s|$)|>|([-*_])\s*(\3\s*){2,}$)")
"""A heading, a quotation or a line across: it ends what is before it without a blank line between."""


@dataclass(frozen=True, slots=True)
class _List:
    """The list that a line is in: its kind of mark, where its last item's words begin, that item's number."""

    mark: str
    inset: int
    number: int


def cut_runs(text: str, longest: int) -> Iterator[Prose | Rows]:
    """Prose without its long tables, its lists in parts that begin after `longest` characters.

    Words added at the end change the last part, or add some; longer ones in a column change all of its table.
    """
    yield from _Cut(text.split("\n"), longest).parts()


class _Cut:
    def __init__(self, lines: Sequence[str], longest: int) -> None:
        self._lines, self._longest = lines, longest
        self._part: list[str] = []
        self._size = 0
        self._number: int | None = None  # of the first item, where the part goes on with a list
        self._list: _List | None = None

    def parts(self) -> Iterator[Prose | Rows]:
        at = fresh = 0  # lines that were read; those before `fresh` end what they are in
        while at < len(self._lines):
            line = self._lines[at]
            item = self._read(line, at == fresh)
            if at == fresh and self._list is None and begins_table(self._lines, at):
                fresh = self._end_of_table(at)
                yield from self._take_table(self._lines[at:fresh])
                at = fresh
                continue
            if item is not None and self._size > self._longest:
                yield from self._flush()
                self._number = item
            self._take(line)
            at += 1
            fresh = at if _ends_paragraph(line) else fresh
        yield from self._flush()

    def _take_table(self, lines: Sequence[str]) -> Iterator[Prose | Rows]:
        parts = list(table_parts(lines))
        if len(parts) > 1:
            yield from self._flush()
            yield from parts
        else:
            for line in lines:
                self._take(line)

    def _take(self, line: str) -> None:
        self._part.append(line)
        self._size += len(line) + 1

    def _read(self, line: str, fresh: bool) -> int | None:
        """Follow the outermost list. Returns the number of the item that begins here, behind another one."""
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip() or (self._list and indent >= self._list.inset):
            return None  # within an item
        breaks = _breaks(line)
        item = None if breaks else _ITEM.match(line)
        if item is None:
            if fresh or breaks:
                self._list = None
            return None
        mark, inset = item[4] or item[2], item.end()
        before = self._list
        same = before is not None and before.mark == mark
        if not (before or fresh) and item[3] and int(item[3]) != 1:
            return None  # a number in the midst of a paragraph
        number = before.number + 1 if before and same else int(item[3] or 1)
        self._list = _List(mark, inset, number)
        return number if before else None

    def _end_of_table(self, at: int) -> int:
        rows = range(at + 2, len(self._lines))
        return next((place for place in rows if not _is_row(self._lines[place])), len(self._lines))

    def _flush(self) -> Iterator[Prose]:
        text = "\n".join(self._part).strip("\n")
        if text.strip():
            yield Prose(text, self._number)
        self._part, self._size, self._number = [], 0, None


def _breaks(line: str) -> bool:
    return line.lstrip(" ").startswith(("#", ">", "-", "*", "_")) and bool(_BREAK.match(line))


def _ends_paragraph(line: str) -> bool:
    """Whether no paragraph goes on behind this line."""
    return not line.strip() or (_breaks(line) and not line.lstrip(" ").startswith(">"))


def _is_row(line: str) -> bool:
    """Whether this line, below a table's row, is one more."""
    if line.startswith("|"):
        return True
    ends = not line.strip() or line.startswith(("    ", "\t"))
    heading = line.lstrip(" ").startswith("#")  # is one more row to Qt
    return not (ends or (_breaks(line) and not heading) or _ITEM.match(line))
