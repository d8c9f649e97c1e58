"""Values of the last minutes, of a clock that may be wrong; without Qt."""

from __future__ import annotations

import math
from dataclasses import dataclass

WINDOW = 300.0
"""Seconds that are kept."""

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
        points.append(Point(at, tuple([finite(value) for value in values])))
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


def finite(value: float | None) -> float | None:
    """The value, where it is one that can be drawn."""
    return value if value is not None and math.isfinite(value) else None
