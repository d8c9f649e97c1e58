"""A model card in blocks that are each laid out within a few milliseconds, whatever its authors wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.chat.markdown_blocks import Block, Code, Prose, split_blocks

MOST_CARD = 60_000
"""Characters of a card that are shown; its page has the rest."""
GOES_ON = "*It goes on: open its page.*"
NOTHING = "*Its authors say nothing of it.*"
MOST_CELLS = 80
"""A table with more becomes aligned text: as a table each of its cells costs about 0.1 ms."""
LONGEST = 1200
"""Characters of a paragraph, or of a run of them; longer ones are cut between two words."""

_RULE = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)+(\s*:?-+:?\s*)?\|?\s*")
_CELL_END = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_MARKS = re.compile(r"\*\*|__|`|\\(?=\|)")
_WIDEST = 40
"""Characters of a column of aligned text; what is longer is cut off."""
_MOST_LINES = 200
"""Lines of code or of aligned text; how many more there are is said."""


def card_blocks(markdown: str) -> list[Block]:
    """The blocks of a card, in order; "" is a card that says nothing."""
    blocks: list[Block] = []
    for block in split_blocks(markdown[:MOST_CARD] or NOTHING):
        if isinstance(block, Code):
            lines = block.text.split("\n")
            blocks.append(replace(block, text=_begin(lines)))
        else:
            blocks += _parts(block.text)
    return [*blocks, Prose(GOES_ON)] if len(markdown) > MOST_CARD else blocks


def _parts(prose: str) -> Iterator[Block]:
    """Prose without large tables and without endless paragraphs."""
    lines = prose.split("\n")
    begin = at = 0
    while at < len(lines):
        if not _begins_table(lines, at):
            at += 1
            continue
        end = next((place for place in range(at + 2, len(lines)) if "|" not in lines[place]), len(lines))
        yield from _pieces("\n".join(lines[begin:at]))
        yield _table(lines[at:end])
        begin = at = end
    yield from _pieces("\n".join(lines[begin:]))


def _begins_table(lines: Sequence[str], at: int) -> bool:
    return "|" in lines[at] and at + 1 < len(lines) and bool(_RULE.fullmatch(lines[at + 1]))


def _table(lines: Sequence[str]) -> Block:
    rows = [_cells(line) for line in (lines[0], *lines[2:])]
    if sum(map(len, rows)) <= MOST_CELLS:
        return Prose("\n".join(lines))
    count = max(map(len, rows))
    filled = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = [min(_WIDEST, max(len(row[column]) for row in filled)) for column in range(count)]
    shown = [
        "  ".join(cell[:width].ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in filled
    ]
    return Code(_begin(shown), "", closed=True)


def _begin(lines: Sequence[str]) -> str:
    """The first lines, and how many more there are."""
    more = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], f"… {more} more"] if more > 0 else lines)


def _cells(line: str) -> list[str]:
    """The words of a row's cells, without Markdown's marks."""
    inside = line.strip().removeprefix("|")
    inside = inside[:-1] if inside.endswith("|") and not inside.endswith("\\|") else inside
    return [_MARKS.sub("", _LINK.sub(r"\1", cell)).strip() for cell in _CELL_END.split(inside)]


def _pieces(prose: str) -> Iterator[Block]:
    """Pieces of bounded length, cut at blank lines, else between two words."""
    rest = prose.strip("\n")
    while len(rest) > LONGEST:
        cut = max(rest.rfind("\n\n", 1, LONGEST), rest.rfind("\n#", 1, LONGEST))
        if cut < 1:
            cut = rest.rfind(" ", 1, LONGEST)
        cut = cut if cut > 0 else LONGEST
        yield Prose(rest[:cut].strip("\n"))
        rest = rest[cut:].strip("\n")
    if rest.strip():
        yield Prose(rest)
