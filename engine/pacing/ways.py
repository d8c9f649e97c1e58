"""The ways of a prompt beside answers: whether it may go with their tokens, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from engine.pacing.slices import Pace

_TRIAL = 40
"""Steps of the other way, in which its sizes are found."""
_OTHERS = 200
"""Steps that are not in the way that is tried, after which the trial is over."""
_RESTS = 40, 1500
"""Steps before the first trial, and between others."""
_BETTER = 1.05
"""How many times as fast the other way must be."""


class Way(Enum):
    """How a prompt's chunk goes through the model."""

    APART = "in products of its own, some layers a step"
    MIXED = "all layers in one step, in the same products as answers' tokens"
    ASIDE = "in a process of its own; a step stores what came of it"


@dataclass(frozen=True, slots=True)
class Mixing:
    """Whether a prompt may go MIXED: where that was measured at rest, or costs nothing to try.

    Attributes:
        times: by tokens of a prompt, how many times as long as without them an answer's step took at rest;
            empty where none was measured, or one broke.
        is_free: whether it may be tried as it comes, whatever was measured: nothing is compiled for it.
    """

    times: Mapping[int, float]
    is_free: bool = False

    @property
    def is_allowed(self) -> bool:
        """Whether answers' steps may have any tokens of a prompt."""
        return self.is_free or bool(self.times)

    def is_promising(self, apart: Pace | None, layers: int, alone: float, may: float) -> bool:
        """Whether a prompt may go faster so than `apart`, in steps through all `layers`.

        `alone`: seconds of the answers' step without it; `may`: that it may take with it.
        """
        if self.is_free:
            return True
        seconds = {tokens: ratio * alone for tokens, ratio in self.times.items()}
        works = [layers * tokens / taken for tokens, taken in seconds.items() if taken <= may]
        return max(works, default=0.0) > _BETTER * (apart.work if apart is not None else 0.0)


FREE = Mixing({}, is_free=True)
"""Where nothing is compiled."""


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
        if tried is not None and tried.fits and (before is None or tried.work > _BETTER * before.work):
            self._is_trial, self._steps, self._others = False, 0, 0
        else:
            self._turn(is_trial=False)

    def _turn(self, *, is_trial: bool) -> None:
        self.is_mixed = not self.is_mixed
        self._is_trial, self._steps, self._others = is_trial, 0, 0
