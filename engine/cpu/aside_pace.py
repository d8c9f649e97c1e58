"""How far apart answers come beside a prompt's chunk in a process of its own. Pure Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

LEAST, MOST = 1.4, 1.5
"""Times what a step of answers takes: what they leave of their processor is the prompt's."""

GAP = 1.7
"""More than LEAST where answers then come so many times as far apart as alone: by how much the chunk slows
their steps down is each machine's, and each hour's."""

_FEWEST, _BEGINNING = 8, 31
"""Steps beside a chunk, of which it is known what they take; and those of its first that tell of GAP."""

_KEPT = 300
"""That are remembered: more than a second, so that answers do not wait longer yet where others slow the
machine down for one."""


class AsidePace:
    """Says when it is time for the tokens of a step, from what steps took."""

    def __init__(self) -> None:
        self._answers = 0
        self._busy = deque[float](maxlen=_KEPT)
        self._first = list[float]()
        self._times = LEAST

    def went_alone(self) -> None:
        """There was a step of answers and nothing else: what comes beside the next chunk is compared anew."""
        self._first.clear()

    def seconds(self, answers: int, busy: float, alone: float) -> float:
        """What a step of so many answers may take; 0 where nobody knows.

        Args:
            answers: that it has a token of each of.
            busy: seconds that the one before took, waiting for its time aside. Nearly what it takes alone, as
                who computes the chunk leaves the processor to answers: a chat grows meanwhile.
            alone: seconds of one without a chunk, before this one; 0 where that is not known.
        """
        if answers != self._answers:
            self._answers = answers
            self._busy.clear()
            self._first.clear()
        self._busy.append(busy)
        if len(self._busy) < _FEWEST:
            return LEAST * alone
        if alone and len(self._first) < _BEGINNING:
            self._first.append(busy)
            if len(self._first) >= _FEWEST:
                self._times = min(max(GAP * alone / _usual(self._first), LEAST), MOST)
        return self._times * _usual(self._busy)


def _usual(seconds: Iterable[float]) -> float:
    """What a step takes that nothing holds up."""
    known = sorted(seconds)
    return known[len(known) // 4]
