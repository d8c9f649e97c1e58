"""A chart's picture, read as a person does: where its plot lies is told from the grid, not from the chart."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QWidget

from app.theme import Theme

NEAR = 3
"""Pixels: half a line's width, and where rounding may put it."""
BESIDE = 5
"""Pixels in which a chart of many samples may put one of them beside its place."""

LEAST_GRID = 12
"""Pixels of a grid's line that the chart's own lines leave to be seen."""


class Painted:
    """The picture of a chart with a grid from 0 to above `highest`, and what a line of a colour left."""

    def __init__(
        self, chart: QWidget, theme: Theme, colour: str, highest: float, image: QImage | None = None
    ) -> None:
        """`image`: of the chart, where it is not to be grabbed."""
        pixels = _pixels(image or chart.grab().toImage())
        grid = (pixels == _rgb(theme.border)).all(axis=2)
        rows = np.flatnonzero(grid.sum(axis=1) >= LEAST_GRID)
        columns = np.flatnonzero(grid[rows].any(axis=0))
        self.top, self.bottom = int(rows[0]), int(rows[-1])
        self.left, self.right = int(columns[0]), int(columns[-1])
        self._highest = mark_above(highest)
        self._ink = np.abs(pixels.astype(int) - _rgb(colour)).sum(axis=2) < 120

    def has_ink(self, share: float, value: float) -> bool:
        """Whether the line was drawn at this share of the plot's width, at this value."""
        x = self.left + (self.right - self.left) * share
        y = self.bottom - (self.bottom - self.top) * value / self._highest
        rows = slice(max(0, round(y) - NEAR), round(y) + NEAR + 1)
        columns = slice(max(0, round(x) - BESIDE), round(x) + BESIDE + 1)
        return bool(self._ink[rows, columns].any())

    def is_blank(self, begin: float, end: float) -> bool:
        """Whether nothing was drawn between these shares of the width, the line's own width aside."""
        width = self.right - self.left
        first, last = self.left + width * begin + NEAR, self.left + width * end - NEAR
        part = self._ink[self.top - NEAR : self.bottom + NEAR, round(first) : max(round(first), round(last))]
        return not part.any()


def mark_above(highest: float) -> float:
    """The top of an axis: at most five steps of 1, 2 or 5 times a power of ten, as few too many as can be."""
    steps = (digit * 10.0**power for power in range(-6, 12) for digit in (1, 2, 5))
    step = next(step for step in steps if 5 * step >= highest * (1 - 1e-9))
    return step * int(np.ceil(highest / step - 1e-9))


def _pixels(image: QImage) -> np.ndarray:
    image = image.convertToFormat(QImage.Format.Format_RGB888)
    lines = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    return lines[:, : 3 * image.width()].reshape(image.height(), image.width(), 3).copy()


def _rgb(colour: str) -> np.ndarray:
    return np.array(QColor(colour).getRgb()[:3])
