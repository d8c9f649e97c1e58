"""Where the lines of a text end: between words, unless one of these is so long that Qt would take seconds."""

from __future__ import annotations

from PySide6.QtGui import QTextOption

LONGEST_WORD = 10_000
"""Characters. For each line that begins in a word Qt looks through all the rest of it."""


def wrapping_of(text: str) -> QTextOption.WrapMode:
    """How `text` is wrapped; with a longer word in it, such as bytes in hexadecimal, lines end anywhere."""
    if any(len(word) > LONGEST_WORD for word in text.split()):
        return QTextOption.WrapMode.WrapAnywhere
    return QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
