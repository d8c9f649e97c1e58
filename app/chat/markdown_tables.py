"""Tables in Markdown: where one begins, what its cells say, and its parts when it is long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.chat.blocks import Prose, Rows

MOST_CELLS = 120
"""A table with more is cut: Qt lays a table out as a whole, and needs 0.04 to 0.1 ms for each cell."""

_RULE = re.compile(r"\|?(\s*:?-+:?\s*\|)+(\s*:?-+:?)?")
_CELL_END = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_MARKS = re.compile(r"\*\*|__|`|\\(?=\|)")
_MARKED = re.compile(r"[\[*_`\\]")
_WIDEST = 96
"""Characters of a column; longer words take several lines."""


def begins_table(lines: Sequence[str], at: int) -> bool:
    """Whether the line there is the head of a table."""
    if "|" not in lines[at] or at + 1 == len(lines) or not _RULE.fullmatch(lines[at + 1].strip()):
        return False
    return len(_cells(lines[at])) == len(_cells(lines[at + 1]))


def with_tables_apart(lines: Sequence[str]) -> list[str]:
    """The lines, a blank one put between words and a table right below: to Qt it would be words too."""
    apart: list[str] = []
    in_table = False
    for at, line in enumerate(lines):
        begins = not in_table and begins_table(lines, at)
        if begins and at and lines[at - 1].strip():
            apart.append("")
        in_table = bool(line.strip()) and (in_table or begins)
        apart.append(line)
    return apart


def table_parts(lines: Sequence[str]) -> Iterator[Prose | Rows]:
    """A table, from its head on, as it is or in parts of up to `MOST_CELLS` cells."""
    head, rule, *rows = lines
    count = len(_cells(head))
    if (len(rows) + 1) * count <= MOST_CELLS:
        yield Prose("\n".join(lines))
        return
    widths = _widths(head, rows)
    step = max(1, MOST_CELLS // count)
    for begin in range(0, len(rows), step):
        text = "\n".join([head, rule, *rows[begin : begin + step]])
        yield Rows(text, widths, first=begin == 0)


def _widths(head: str, rows: Sequence[str]) -> tuple[int, ...]:
    """Of each column, in steps: so that a table that is being written seldom needs others."""
    longest = [len(cell) * 5 // 4 for cell in _cells(head)]  # bold, and so wider
    for row in rows:
        for column, cell in enumerate(_cells(row)[: len(longest)]):
            longest[column] = max(longest[column], len(cell))
    return tuple(_step_up(length) for length in longest)


def _step_up(length: int) -> int:
    """The next of 4, 6, 8, 12, 16, 24 …"""
    step = 4
    while step < min(length, _WIDEST):
        step = step * 3 // 2 if step & (step - 1) == 0 else step * 4 // 3
    return step


def _cells(row: str) -> list[str]:
    """The words of a row's cells, without Markdown's marks."""
    inside = row.strip().removeprefix("|")
    inside = inside[:-1] if inside.endswith("|") and not inside.endswith("\\|") else inside
    if not _MARKED.search(inside):  # as most are, of thousands
        return [cell.strip() for cell in inside.split("|")]
    return [_MARKS.sub("", _LINK.sub(r"\1", cell)).strip() for cell in _CELL_END.split(inside)]
