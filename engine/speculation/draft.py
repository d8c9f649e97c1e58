"""A draft: tokens that may come, guessed so that one step can check several."""

from __future__ import annotations

from dataclasses import dataclass

LENGTHS = (1, 3, 7)
"""Tokens that a draft may have: with the last token before them, steps of two, four and eight.

Few, since a GPU compiles its kernels anew for each number of tokens in a step.
"""

MOST_DRAFTED = LENGTHS[-1]
"""Drafted tokens in one step at most."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed tokens, for which nothing was drawn.

    Attributes:
        tokens: what may follow, first to last; empty when there is no guess.
        match: how many tokens before it speak for it; 0 when that says nothing.
    """

    tokens: tuple[int, ...]
    match: int
