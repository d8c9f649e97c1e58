"""When Markdown that grows can be shown by adding its new words, instead of reading it all again."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"(?:[^\W_]|[ ,.;?'\"()%–—‘’“”…-])*")
_WRITTEN = re.compile(r"[^\W\d_]{2}")
_BEGUN = re.compile(r"[&@|<\\]|www|~~~|```|^ {4}|^\t")
"""Entities, addresses, tables and code: more of the line may change what is there already."""


def plain_growth(shown: str, wanted: str) -> str | None:
    """What to add to the rendering of `shown` to get that of `wanted`; None where Markdown may see more.

    Only letters and harmless punctuation qualify, in a line of prose that has begun with words. Spaces at its
    end are held back as Markdown does, and come with the next words.
    """
    if not wanted.startswith(shown):
        return None
    added = wanted[len(shown) :]
    line = shown[shown.rfind("\n") + 1 :]
    if not _PLAIN.fullmatch(line[-1:] + added) or _BEGUN.search(line) or not _WRITTEN.search(line):
        return None
    held_back = line[len(line.rstrip(" ")) :]
    return (held_back + added).rstrip(" ")
