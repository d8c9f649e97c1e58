"""The ways of a prompt beside answers, and whether it goes apart from their tokens or with them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.slices import Pace

_TRIAL = 40
"""Steps of the other way, in which its sizes are found."""
_OTHERS = 200
"""Steps that are not in the way that is tried, after which the trial is over."""
_RESTS = 40, 1500
"""Steps before the first trial, and between others."""
BETTER = 1.05
"""How many times as fast the other way must be."""


class Way(Enum):
    """How a prompt's chunk goes through the model."""

    APART = "in products of its own, some layers a step"
    MIXED = "all layers in one step, in the same products as answers' tokens"
    ASIDE = "in a process of its own; a step stores what came of it"


@dataclass(slots=True)
class Ways:
    """On one thread, takes the way in which a prompt was faster, and tries the other from time to time.

    Attributes:
        is_mixed: whether that is MIXED; else APART.
        rest: steps before the other way is tried.
    """

    is_mixed: bool = False
    rest: int = _RESTS[0]
    _is_trial: bool = False
    _steps: int = 0
    _others: int = 0

    def took(self, *, is_mixed: bool, mixed: Pace | None, apart: Pace | None, may_try: bool = True) -> None:
        """A step was done in one of the ways; the paces of both, as far as they are known.

        `may_try`: whether the other one may be tried now.
        """
        if is_mixed == self.is_mixed:
            self._steps += 1
        else:  # of a chunk that was begun before, or that is too short to be mixed
            self._others += 1
        ours, other = (mixed, apart) if self.is_mixed else (apart, mixed)
        if not self._is_trial:
            if may_try and self._steps >= self.rest:
                self._turn(is_trial=True)
        elif self._steps >= _TRIAL or self._others >= _OTHERS or (ours is not None and not ours.fits):
            self._judge(ours, other)

    def _judge(self, tried: Pace | None, before: Pace | None) -> None:
        """The trial is over."""
        self.rest = _RESTS[1]
        if tried is not None and tried.fits and (before is None or tried.work > BETTER * before.work):
            self._is_trial, self._steps, self._others = False, 0, 0
        else:
            self._turn(is_trial=False)

    def _turn(self, *, is_trial: bool) -> None:
        self.is_mixed = not self.is_mixed
        self._is_trial, self._steps, self._others = is_trial, 0, 0
