"""Drafts from the sequence's own past: what followed the last time that its newest tokens stood in a row."""

from __future__ import annotations

from collections.abc import Sequence

from engine.speculation.draft import Draft

RUNS = (16, 8, 4, 2)
"""Lengths of the runs that are looked for: text that copies has long ones, and they are more often right."""

_ABSENT = -1

_PRIME, _BASE = (1 << 61) - 1, 0x9E3779B97F4A7C15 % ((1 << 61) - 1)


class PromptLookup:
    """A drafter without a model, for text that repeats itself or copies from its prompt.

    The longest run of newest tokens that stood there before counts, at its latest place. Adding a token costs
    the same at any length of the sequence, and so does a draft.
    """

    def __init__(self, tokens: Sequence[int] = (), sizes: Sequence[int] = RUNS) -> None:
        """Raises ValueError when a size is not positive.

        Args:
            tokens: the sequence so far.
            sizes: how many newest tokens are looked for at once; the shortest suffices.
        """
        if min(sizes) < 1:
            raise ValueError(f"a run of {min(sizes)} tokens cannot be looked for")
        self._tokens: list[int] = []
        self._runs = [_Runs(size) for size in sorted(sizes, reverse=True)]
        self.add(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, tokens: Sequence[int]) -> None:
        """See Drafter."""
        known, begin = self._tokens, len(self._tokens)
        known.extend(tokens)
        for runs in self._runs:
            runs.add(known, begin)

    def draft(self, most: int) -> Draft:
        """See Drafter. A copy that reaches the sequence's end goes on with what it has copied: a loop."""
        known = self._tokens
        if most <= 0 or self._runs[-1].find(known) == _ABSENT:
            return Draft((), 0)  # where no short run stood before, no longer one did
        for runs in self._runs:
            begin = runs.find(known)
            if begin != _ABSENT:
                copied = known[begin : begin + most]
                period = len(copied)
                return Draft(tuple(copied[i % period] for i in range(most)), runs.size)
        return Draft((), 0)


class _Runs:
    """Where each run of `size` tokens that has a successor was seen last: the successor's place.

    Runs are known by their hashes, which roll on from token to token; what is found is compared. The hash is
    Karp and Rabin's (https://doi.org/10.1147/rd.312.0249), a polynomial over the integers modulo a prime.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._successor: dict[int, int] = {}
        self._newest = 0  # the hash of the newest `size` tokens
        self._leaving = pow(_BASE, size, _PRIME)

    def find(self, known: list[int]) -> int:
        """The place after the last earlier run that equals the newest tokens, or _ABSENT."""
        place = self._successor.get(self._newest, _ABSENT)
        if place == _ABSENT or len(known) < self.size:
            return _ABSENT
        return place if known[place - self.size : place] == known[-self.size :] else _ABSENT

    def add(self, known: list[int], begin: int) -> None:
        """Take in the tokens from place `begin` on."""
        size, newest, leaving = self.size, self._newest, self._leaving
        for place in range(begin, len(known)):
            if place < size:
                newest = (newest * _BASE + known[place]) % _PRIME
            else:
                self._successor[newest] = place
                newest = (newest * _BASE + known[place] - leaving * known[place - size]) % _PRIME
        self._newest = newest
