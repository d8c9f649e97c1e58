"""Drafts from the sequence's own past: what followed where its newest tokens stood before."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from engine.speculation.draft import Draft

LONGEST = 16
"""Tokens before a place that are compared at most: after longer runs guesses are not more often right."""

_SHIFT = 1 << 32  # above any token's id


class PromptLookup:
    """A drafter without a model, for text that repeats itself or copies from its prompt.

    What is foretold followed the newest two tokens where they stood last. A place that was right is followed,
    whatever else begins alike. To compare more places, and to prefer longer runs, was no more often right in
    prose, code and answers. A token costs the same at any length of the sequence: an entry in a dict.

    Attributes:
        match: how many of the newest tokens stand before the place, from 2 on; from LONGEST on there may be
            more. 0 where nothing is foretold.
    """

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        """`tokens`: the sequence so far."""
        self.match = 0
        self._tokens: list[int] = []
        self._place = 0  # of the token that is foretold
        self._after: dict[int, int] = {}  # where two tokens stood last: the place after them
        self.add(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, tokens: Sequence[int]) -> None:
        """The sequence grew by `tokens`, however many."""
        if not tokens:
            return
        *former, last = tokens
        known, begin = self._tokens, max(0, len(self._tokens) - 1)
        known += former
        pairs = map(add, map(_SHIFT.__mul__, known[begin:]), known[begin + 1 :])
        self._after.update(zip(pairs, range(begin + 2, len(known) + 1), strict=True))
        self.match = 0
        self.follow(last)

    def follow(self, token: int) -> bool:
        """The sequence grew by `token`. Returns whether it was foretold."""
        known, place = self._tokens, self._place
        known.append(token)
        end = len(known)
        if end < 2:
            return False
        pair = known[-2] * _SHIFT + token
        before = self._after.get(pair)
        self._after[pair] = end
        if self.match and known[place] == token:
            self._place = place + 1
            self.match += 1
            return True
        self.match = 0 if before is None else self._compared(before)
        return False

    def draft(self, most: int) -> Draft:
        """At most `most` tokens that may follow.

        A copy that reaches the sequence's end goes on with what it has copied: a loop.
        """
        if not self.match or most <= 0:
            return Draft((), 0)
        copied = self._tokens[self._place : self._place + most]
        while len(copied) < most:
            copied += copied[: most - len(copied)]
        return Draft(tuple(copied), min(self.match, LONGEST))

    def _compared(self, place: int) -> int:
        """Follow `place`, after two tokens like the newest ones. Returns how many are."""
        known, last, behind = self._tokens, len(self._tokens) - 1, len(self._tokens) - place
        match, most = 2, min(place, LONGEST)
        while match < most and known[last - match - behind] == known[last - match]:
            match += 1
        self._place = place
        return match
