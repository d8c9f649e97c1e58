"""What slices of a prompt added to the steps beside answers that had one, size by size."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

FEW = 5
"""Steps with a size before which nothing is said of it: a host may be slow for a moment."""
_KEPT = 15
"""The latest of them, by which it is judged."""
_FRESH = 60
"""Steps, with any size, for which what was measured says something of now."""


class SliceCosts:
    """Seconds that sizes add to steps, by the median of the latest, since some steps compile or wait.

    A size is a number from 0, the thinnest; steps are counted by whoever measures them.
    """

    def __init__(self) -> None:
        self._added = dict[int, deque[tuple[int, float]]]()
        self._medians = dict[int, _Median]()

    def add(self, at: int, step: int, seconds: float) -> None:
        """A slice of size `at` added `seconds` to that step."""
        self._added.setdefault(at, deque(maxlen=_KEPT)).append((step, seconds))
        self._medians.pop(at, None)

    @property
    def thickest(self) -> int:
        """The thickest size that was ever measured; -1 where none was."""
        return max(self._added, default=-1)

    def of_late(self, at: int, step: int) -> float | None:
        """What a slice of that size adds to a step, as far as that was measured shortly before `step`."""
        known = self._medians.get(at)
        if known is None or step > known.until:
            fresh = [(then, added) for then, added in self._added.get(at, ()) if step - then <= _FRESH]
            until = fresh[0][0] + _FRESH if fresh else math.inf
            value = median(added for _, added in fresh) if len(fresh) >= FEW else None
            known = self._medians[at] = _Median(until, value)
        return known.value

    def all_of_late(self, step: int) -> dict[int, float]:
        """`of_late` of the sizes of which it says something."""
        return {at: added for at in self._added if (added := self.of_late(at, step)) is not None}

    def typical(self, at: int) -> float | None:
        """What a slice of that size added to the last steps that had one, however long ago."""
        added = [added for _, added in self._added.get(at, ())]
        return median(added) if len(added) >= FEW else None

    def typical_below(self, at: int) -> float | None:
        """What the next smaller size added that was ever measured, if not that one: no more than it would."""
        known = (self.typical(other) for other in range(at, -1, -1))
        return next((added for added in known if added is not None), None)


@dataclass(frozen=True, slots=True)
class _Median:
    """What a size adds to a step; until step `until` no step is too old to count."""

    until: float
    value: float | None
