"""Colours of lines and chats that are told apart without full colour vision too.

The colours are those of Okabe and Ito (2008), "Color Universal Design", without black and yellow, made darker
on light ground or lighter on dark until they stand out from it. Lines differ in their dashes besides.
"""

from __future__ import annotations

from app.theme import Theme

_LIGHT = ("#0072b2", "#c04e00", "#007a5a", "#a8487e", "#6b5200", "#4b2e83")
_DARK = ("#56b4e9", "#e69f00", "#2fbf95", "#e08fbb", "#f0e442", "#c9c3ff")


def colours(theme: Theme) -> tuple[str, ...]:
    """#rrggbb, as many as there are."""
    return _DARK if theme.dark else _LIGHT


def colour_of(place: int, theme: Theme) -> str:
    """The colour of the line or chat at `place`; they come again after the last."""
    found = colours(theme)
    return found[place % len(found)]
