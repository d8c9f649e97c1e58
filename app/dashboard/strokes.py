"""The lines of a chart in strokes, one a column: one that has ended never changes; without Qt."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.dashboard.series import Point

GAP = 2.0
"""Seconds without a sample, behind which a line begins anew: nothing is known of what lies between."""

Sample = tuple[float, float]
"""A time in seconds, and a value."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """A part of a line that is drawn at once, through `samples` in the order of their times.

    Attributes:
        begins: nothing of the line is joined to its left.
    """

    line: int
    samples: tuple[Sample, ...]
    begins: bool


@dataclass(slots=True)
class _Open:
    """What a line has in the column that its last sample is in.

    Attributes:
        link: the last sample of the column before, from which the line comes.
    """

    column: float = 0.0
    link: Sample | None = None
    samples: list[Sample] = field(default_factory=list[Sample])

    def stroke(self, line: int) -> Stroke:
        kept = _thinned(self.samples)
        return Stroke(line, (self.link, *kept) if self.link else kept, self.link is None)


class Strokes:
    """Takes samples of some lines; columns are `width` seconds wide and begin at multiples of it.

    A stroke has at most four samples of its column: first, least, most and last, so that no peak is lost. It
    is joined neither over more than GAP seconds nor over a missing value.
    """

    def __init__(self, lines: int, width: float) -> None:
        self._width = width
        self._lines = [_Open() for _ in range(lines)]

    def add(self, point: Point) -> list[Stroke]:
        """The strokes that end with this sample's coming: in front of it."""
        ended: list[Stroke] = []
        at = point.at
        column = at // self._width
        for line, value in enumerate(point.values):
            open_ = self._lines[line]
            if open_.samples:
                before = open_.samples[-1]
                is_apart = value is None or at - before[0] > GAP
                if is_apart or column != open_.column:
                    ended.append(open_.stroke(line))
                    open_.link, open_.samples = None if is_apart else before, []
            if value is not None:
                open_.column = column
                open_.samples.append((at, value))
        return ended

    @property
    def open(self) -> list[Stroke]:
        """Those that the next sample may change, at most one a line."""
        return [open_.stroke(line) for line, open_ in enumerate(self._lines) if open_.samples]


class Extremes:
    """The least and the most of a line's samples, of which the oldest go."""

    def __init__(self) -> None:
        self._least: deque[Sample] = deque()  # each less than all behind it
        self._most: deque[Sample] = deque()

    def add(self, at: float, value: float) -> None:
        """A sample, not older than those before."""
        while self._least and self._least[-1][1] >= value:
            self._least.pop()
        self._least.append((at, value))
        while self._most and self._most[-1][1] <= value:
            self._most.pop()
        self._most.append((at, value))

    def drop(self, until: float) -> None:
        """Forget samples older than `until`."""
        for kept in (self._least, self._most):
            while kept and kept[0][0] < until:
                kept.popleft()

    @property
    def known(self) -> tuple[float, float, float] | None:
        """The least, the most and the last value; None without a sample."""
        return (self._least[0][1], self._most[0][1], self._least[-1][1]) if self._least else None


def since(points: Sequence[Point], last: Point | None) -> Sequence[Point] | None:
    """Those behind `last`, which is told by identity; None where it is not among them: they are others."""
    if last is None:
        return None
    for place in range(len(points) - 1, -1, -1):
        if points[place] is last:
            return points[place + 1 :]
    return None


def _thinned(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    if len(samples) <= 2:
        return tuple(samples)
    values = [value for _, value in samples]
    places = {0, values.index(min(values)), values.index(max(values)), len(values) - 1}
    return tuple(samples[place] for place in sorted(places))
