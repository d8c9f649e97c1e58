"""How far a prompt was told to be, and how long the rest of it is expected to take. Pure Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_OFTEN = 0.1
"""Seconds between two pieces of progress inside a chunk, at least."""
_TRUST = 0.05
"""Share of the whole wait for which it counts as if what was expected had been seen: a step says little."""
_FEWEST = 64
"""Tokens that say at which pace a prompt goes."""


@dataclass(slots=True)
class Progress:
    """What was told of one prompt.

    Attributes:
        done: most of its tokens that were said to be done; -1 before anything was told.
    """

    done: int = -1
    _at: float = 0.0
    _began: float | None = None
    _first: int = 0
    _trust: float = 0.0

    def begin(self) -> None:
        """Reading begins, or begins again: until then it waited, which says nothing of what is left."""
        self._began = None

    def is_due(self, done: int, now: float) -> bool:
        """Whether it is time to tell that so many are, in the middle of a chunk."""
        return done > self.done and now - self._at >= _OFTEN

    def told(
        self,
        done: int,
        prompt: int,
        left: Callable[[int], float | None],
        now: float,
        *,
        is_quick: bool = False,
    ) -> tuple[int, float | None]:
        """It is told now that so many tokens of `prompt` are done: never fewer than before; and what is left.

        `left`: seconds that the tokens behind so many are expected to take, alone, by what is known now;
        None: not known. As the first ones took longer or less than that, the others are taken to: answers may
        be beside them. Where nothing was expected before it began, they are taken to go on at the pace of
        those before them. Where it begins and `is_quick`, nobody is asked.
        """
        is_unasked = is_quick and self._began is None
        rest = 0.0 if done == prompt else None if is_unasked else left(done)
        if self._began is None:
            self._began, self._first, self._trust = now, done, _TRUST * (rest or 0.0)
        self.done, self._at = max(self.done, done), now
        if done == prompt:
            return self.done, 0.0
        whole = rest if done == self._first else left(self._first)
        if whole is None or rest is None or not self._trust:
            read = done - self._first
            return self.done, (now - self._began) / read * (prompt - done) if read >= _FEWEST else rest
        seen = max(0.0, whole - rest)
        return self.done, (now - self._began + self._trust) / (seen + self._trust) * rest
