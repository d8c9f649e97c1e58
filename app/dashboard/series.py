"""Values of the last minutes, of a clock that may be wrong; without Qt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WINDOW = 300.0
"""Seconds that are kept."""

GAP = 2.0
"""Seconds without a sample, behind which a line begins anew: nothing is known of what lies between."""

Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """The values of all lines at a time, in seconds; None where a line has none."""

    at: float
    values: Values


class Series:
    """Samples of some lines in the order of their times, none older than WINDOW before the last."""

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._points: list[Point] = []
        self._first = 0

    @property
    def points(self) -> list[Point]:
        """What is kept, oldest first."""
        return self._points[self._first :]

    def add(self, at: float, values: Values) -> None:
        """A sample. Where the clock has gone back, what came before is of another time and is dropped."""
        points = self._points
        if points and at < points[-1].at:
            points.clear()
            self._first = 0
        points.append(Point(at, tuple(_finite(value) for value in values)))
        while points[self._first].at < at - self._window:
            self._first += 1
        if self._first > len(points) // 2:
            del points[: self._first]
            self._first = 0

    def cut(self) -> None:
        """What follows is another model's, or the same one loaded anew: its lines begin anew."""
        if self._points and any(value is not None for value in self._points[-1].values):
            last = self._points[-1]
            self._points.append(Point(last.at, (None,) * len(last.values)))


def runs(points: Sequence[Point], line: int, gap: float = GAP) -> list[list[tuple[float, float]]]:
    """A line's samples as (time, value), in pieces to draw: neither over a gap nor over a missing value."""
    found: list[list[tuple[float, float]]] = []
    before: float | None = None
    for point in points:
        value = point.values[line]
        if value is None:
            before = None
            continue
        if before is None or point.at - before > gap:
            found.append([])
        found[-1].append((point.at, value))
        before = point.at
    return found


def thinned(run: Sequence[tuple[float, float]], width: float) -> list[tuple[float, float]]:
    """At most four samples for each `width` seconds: first, least, most and last, so that no peak is lost."""
    kept: list[tuple[float, float]] = []
    begin = 0
    while begin < len(run):
        end, column = begin, run[begin][0] // width
        while end < len(run) and run[end][0] // width == column:
            end += 1
        here = range(begin, end)
        least = min(here, key=lambda place: run[place][1])
        most = max(here, key=lambda place: run[place][1])
        kept += [run[place] for place in sorted({begin, least, most, end - 1})]
        begin = end
    return kept


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
