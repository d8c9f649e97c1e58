"""Cutting an answer's Markdown into blocks that are laid out one by one, so that only the last one grows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.chat.blocks import Block, Code
from app.chat.long_runs import cut_runs
from app.chat.markdown_tables import with_tables_apart

LONGEST_PROSE = 1200
"""Prose longer than this many characters is cut at the next safe place: layout time stays bounded."""

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})\s*([^`\n]*)$")
_CONTINUES = re.compile(r"^(\s|[-*+>|]|\d+[.)]\s)")


def split_blocks(markdown: str) -> list[Block]:
    """The blocks of `markdown`, in order. Text added at its end changes the last block only, or adds some.

    (While they are written, a line can still turn from prose into a fence, a table become so long that it is
    cut, or one of its columns so wide that all of its parts change.)
    """
    blocks: list[Block] = []
    prose: list[str] = []
    lines = iter(markdown.split("\n"))
    size = 0
    for line in lines:
        fence = _FENCE.match(line)
        if fence:
            _add_prose(blocks, prose)
            size = 0
            blocks.append(_read_code(lines, fence))
            continue
        if (
            size > LONGEST_PROSE
            and prose
            and not prose[-1].strip()
            and line.strip()
            and not _CONTINUES.match(line)
        ):
            _add_prose(blocks, prose)
            size = 0
        prose.append(line)
        size += len(line) + 1
    _add_prose(blocks, prose)
    return blocks


def _add_prose(blocks: list[Block], lines: list[str]) -> None:
    text = "\n".join(with_tables_apart(lines)).strip("\n")
    lines.clear()
    if text.strip():
        blocks += cut_runs(text, LONGEST_PROSE)


def _read_code(lines: Iterator[str], fence: re.Match[str]) -> Code:
    indent, marks, language = len(fence[1]), fence[2], fence[3].strip()
    closing = re.compile(rf"^ {{0,3}}{re.escape(marks[0])}{{{len(marks)},}}\s*$")
    inside: list[str] = []
    for line in lines:
        if closing.match(line):
            return Code("\n".join(inside), language, closed=True)
        inside.append(line[min(indent, len(line) - len(line.lstrip(" "))) :])
    return Code("\n".join(inside), language, closed=False)
