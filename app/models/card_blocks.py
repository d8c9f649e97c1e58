"""A model card in blocks that are each laid out within a few milliseconds, whatever its authors wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.chat.blocks import Block, Code, Prose, Rows
from app.chat.markdown_blocks import LONGEST_PROSE, split_blocks
from app.chat.markdown_tables import begins_table, table_parts

MOST_CARD = 60_000
"""Characters of a card that are shown; its page has the rest."""
GOES_ON = "*It goes on: open its page.*"
NOTHING = "*Its authors say nothing of it.*"
LONGEST = 2 * LONGEST_PROSE
"""Characters of a block; longer ones, such as a paragraph without end, are cut between two words."""

_MOST_LINES = 200
"""Lines of code; how many more there are is said."""


def card_blocks(markdown: str) -> list[Block]:
    """The blocks of a card, in order; "" is a card that says nothing."""
    blocks: list[Block] = []
    for block in split_blocks(markdown[:MOST_CARD] or NOTHING):
        if isinstance(block, Code):
            lines = block.text.split("\n")
            blocks.append(replace(block, text=_begin(lines)))
        elif isinstance(block, Rows):
            blocks.append(block)
        else:
            first, *others = _parts(block.text)
            blocks += [replace(first, number=block.number) if isinstance(first, Prose) else first, *others]
    return [*blocks, Prose(GOES_ON)] if len(markdown) > MOST_CARD else blocks


def _parts(prose: str) -> Iterator[Block]:
    """Prose with its tables by themselves, and without endless paragraphs."""
    lines = prose.split("\n")
    begin = at = 0
    while at < len(lines):
        if not begins_table(lines, at):
            at += 1
            continue
        end = next((place for place in range(at + 2, len(lines)) if "|" not in lines[place]), len(lines))
        yield from _pieces("\n".join(lines[begin:at]))
        yield from table_parts(lines[at:end])
        begin = at = end
    yield from _pieces("\n".join(lines[begin:]))


def _begin(lines: Sequence[str]) -> str:
    """The first lines, and how many more there are."""
    more = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], f"… {more} more"] if more > 0 else lines)


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
