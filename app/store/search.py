"""The text side of searching chats: quoting words for SQLite and cutting a snippet around what was found."""

from __future__ import annotations

from collections.abc import Sequence

SHORTEST_INDEXED = 3
"""The index holds runs of three characters; shorter words are looked for without it."""
SNIPPET_LENGTH = 80
LEAD = 24


def phrase(word: str) -> str:
    """`word` as an FTS5 string: nothing in it is an operator."""
    return '"' + word.replace('"', '""') + '"'


def escape_like(word: str) -> str:
    r"""`word` for LIKE … ESCAPE '\'."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def snippet(text: str, words: Sequence[str]) -> str:
    """One line of `text` around the first of `words` that occurs in it."""
    line = " ".join(text.split())
    folded = line.casefold()
    places = [place for place in (folded.find(word.casefold()) for word in words) if place >= 0]
    start = max(0, min(places, default=0) - LEAD)
    if start:
        start = line.find(" ", start) + 1 if 0 <= line.find(" ", start) < start + LEAD else start
    cut = line[start : start + SNIPPET_LENGTH]
    return ("…" if start else "") + cut + ("…" if start + SNIPPET_LENGTH < len(line) else "")
