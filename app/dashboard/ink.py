"""A chart's lines: what no later sample changes is kept as a picture, which only moves to the left."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPixmap, QPolygonF

from app.dashboard.series import Point
from app.dashboard.strokes import Stroke, Strokes, since

COLUMN = 4
"""Pixels, of whose samples those are drawn that show."""

EDGE = 3
"""Pixels above, below and to the right of the plot on which a line's width may lie."""

LEAST = 2.0
"""Pixels that a line takes from left to right at least: one of a single sample is seen."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How samples become places in a plot.

    Attributes:
        width, height: of the plot, in pixels.
        span: seconds across the width.
        highest: the value at the top; 0 is at the bottom.
        ratio: pixels of the screen in a pixel.
    """

    width: float
    height: float
    span: float
    highest: float
    ratio: float

    @property
    def rate(self) -> float:
        """Pixels a second."""
        return self.width / self.span


class Ink:
    """Draws the lines of a chart.

    It scrolls by whole pixels of the screen, so that a picture is the same however it came about; dashes of a
    line whose beginning has gone aside.
    """

    def __init__(self) -> None:
        self._cut_by: object = None
        self._drawn_by: object = None
        self._picture = QPixmap()
        self._begin = 0
        self._last: Point | None = None
        self._strokes = Strokes(0, 1.0)
        self._ended: deque[Stroke] = deque()
        self._lengths: list[float] = []

    def paint(
        self, painter: QPainter, scale: Scale, points: Sequence[Point], now: float, pens: list[QPen]
    ) -> None:
        """Draw `points` with a pen for each line; the painter's origin is the plot's corner at the top left.

        `now` is the time at the plot's right end.
        """
        begin = math.floor((now - scale.span) * scale.rate * scale.ratio)
        self._follow(scale, points, begin, pens)
        width, height = self._picture.width() / scale.ratio, self._picture.height() / scale.ratio
        target = QRectF(0, -EDGE, width, height)
        painter.drawPixmap(target, self._picture, QRectF(self._picture.rect()))
        painter.setClipRect(target)
        self._draw(painter, scale, self._strokes.open, pens, self._lengths.copy())

    def _follow(self, scale: Scale, points: Sequence[Point], begin: int, pens: list[QPen]) -> None:
        """Bring the picture to where `begin` is its left end, in pixels of the screen since time 0."""
        if begin < self._begin:
            self._last = None  # what has left comes into view again
        ended, is_other = self._cut(scale, points, len(pens)), (scale, pens) != self._drawn_by
        moved, self._begin, self._drawn_by = begin - self._begin, begin, (scale, pens)
        while self._ended and self._ended[0].samples[-1][0] * scale.rate * scale.ratio < begin:
            self._ended.popleft()
        if is_other or ended is None or moved >= self._picture.width():
            self._picture, self._lengths, ended = _blank(scale), [0.0] * len(pens), self._ended
        elif moved:
            _scroll(self._picture, moved)
        if ended:
            painter = QPainter(self._picture)
            painter.scale(scale.ratio, scale.ratio)
            painter.translate(0, EDGE)
            self._draw(painter, scale, ended, pens, self._lengths)
            painter.end()

    def _cut(self, scale: Scale, points: Sequence[Point], lines: int) -> Sequence[Stroke] | None:
        """The strokes that have ended since the last time; None where all strokes are others."""
        new = since(points, self._last) if (scale.rate, lines) == self._cut_by else None
        is_other = new is None
        if new is None:
            new, self._cut_by = points, (scale.rate, lines)
            self._strokes = Strokes(lines, COLUMN / scale.rate)
            self._ended.clear()
        self._last = points[-1] if points else None
        ended = [stroke for point in new for stroke in self._strokes.add(point)]
        self._ended.extend(ended)
        return None if is_other else ended

    def _draw(
        self,
        painter: QPainter,
        scale: Scale,
        strokes: Iterable[Stroke],
        pens: list[QPen],
        lengths: list[float],
    ) -> None:
        """`lengths`: of each line up to its stroke, and then with it; dashes go on from there."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left, rate = self._begin / scale.ratio, scale.rate
        bottom, unit = scale.height, scale.height / scale.highest
        for stroke in strokes:
            pen = pens[stroke.line]
            points = [QPointF(at * rate - left, bottom - value * unit) for at, value in stroke.samples]
            painter.setPen(pen)
            if stroke.begins:
                half = QPointF(LEAST / 2, 0)
                painter.drawLine(points[0] - half, points[0] + half)
                lengths[stroke.line] = 0.0
            if pen.style() == Qt.PenStyle.SolidLine:
                painter.drawLines([QLineF(one, other) for one, other in pairwise(points)])
                continue
            painter.setPen(_dashed(pen, lengths[stroke.line]))
            painter.drawPolyline(QPolygonF(points))
            lengths[stroke.line] += sum(QLineF(one, other).length() for one, other in pairwise(points))


def _blank(scale: Scale) -> QPixmap:
    sides = (scale.width + EDGE, scale.height + 2 * EDGE)
    picture = QPixmap(*(math.ceil(side * scale.ratio) for side in sides))
    picture.fill(Qt.GlobalColor.transparent)
    return picture


def _scroll(picture: QPixmap, pixels: int) -> None:
    """Move it to the left; what comes in on the right is blank."""
    picture.scroll(-pixels, 0, picture.rect())
    painter = QPainter(picture)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Clear)
    painter.fillRect(picture.width() - pixels, 0, pixels, picture.height(), Qt.GlobalColor.transparent)
    painter.end()


def _dashed(pen: QPen, length: float) -> QPen:
    """The pen, of which so many pixels are drawn."""
    made = QPen(pen)
    made.setDashOffset(length / pen.widthF() % sum(pen.dashPattern()))
    return made
