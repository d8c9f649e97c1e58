"""What a drafter is: something that guesses the tokens to come, so that one step can check several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

LENGTHS = (1, 3, 7)
"""Tokens that a draft may have: with the last token before them, steps of two, four and eight.

Few, since a GPU compiles its kernels anew for each number of tokens in a step.
"""

MOST_DRAFTED = LENGTHS[-1]
"""Drafted tokens in one step at most."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed tokens that nothing was drawn for: the drafter would guess the same again.

    A drafter that draws its guesses says from what: `engine.speculation.verify.SampledDraft`.

    Attributes:
        tokens: what may follow, first to last; empty when there is no guess.
        match: how many tokens before it speak for it; 0 when that says nothing.
    """

    tokens: tuple[int, ...]
    match: int

    def cut(self, most: int) -> Draft:
        """Its first `most` tokens."""
        return self if len(self.tokens) <= most else Draft(self.tokens[:most], self.match)


class Drafter(Protocol):
    """Guesses the continuation of one sequence, prompt and answer."""

    def add(self, tokens: Sequence[int]) -> None:
        """The sequence grew by `tokens`, guessed or not."""
        ...

    def draft(self, most: int) -> Draft:
        """At most `most` tokens that may follow; they are not added."""
        ...
