"""A chart of lines over the last minutes, painted with the theme's colours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from PySide6.QtCore import QLineF, QPointF, QRectF, QSize, Qt, Slot
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.appearance import Appearance
from app.dashboard.axis import ago_words, ticks
from app.dashboard.live_cards import Card, value_words
from app.dashboard.palette import colour_of
from app.dashboard.series import Point, runs, thinned

SPANS = {30.0: 3, 60.0: 4, 120.0: 4, 300.0: 5}
"""Seconds that the time axis may cover, and its parts: the first that holds all samples."""

HEIGHT = 220
TOP, BOTTOM, LEFT, RIGHT = 34, 26, 12, 12
DASHES = (
    Qt.PenStyle.SolidLine,
    Qt.PenStyle.DashLine,
    Qt.PenStyle.DotLine,
    Qt.PenStyle.DashDotLine,
)
SMALL_PX = 11
COLUMN = 4
"""Pixels, of whose samples those are drawn that show: `thinned`."""

PIECE = 16
LEAST = 2.0
"""Pixels from left to right that a piece of a line takes at least."""


class Chart(QWidget):
    """Shows the lines of a card; in words they are in its accessible description, and in a table beside."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMinimumHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._appearance = appearance
        self._card: Card | None = None
        self._points: Sequence[Point] = ()
        self._now = 0.0
        self._grid: tuple[object, QPixmap] | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        appearance.changed.connect(self._repaint)

    @property
    def points(self) -> Sequence[Point]:
        """The samples on show."""
        return self._points

    def show_series(self, card: Card, points: Sequence[Point], now: float) -> None:
        """Draw `points`, samples of the card's lines; `now` is the right end of the time axis, in seconds."""
        is_new = (card, points) != (self._card, self._points)
        self._card, self._points, self._now = card, points, now
        if not is_new:
            if points and now - points[-1].at <= max(SPANS):  # what is older has left the chart
                self.update()
            return
        self.update()
        self.setAccessibleName(f"Chart: {card.title}")
        self.setAccessibleDescription(self.words)

    @property
    def words(self) -> str:
        """The least, the most and the last value of each line."""
        if self._card is None:
            return ""
        said: list[str] = []
        for line, name in enumerate(self._card.lines):
            values = [value for point in self._points if (value := point.values[line]) is not None]
            if values:
                least, most, last = (
                    value_words(v, self._card.unit) for v in (min(values), max(values), values[-1])
                )
                said.append(f"{name}: least {least}, most {most}, last {last}")
        return "; ".join(said) or "Nothing yet"

    @property
    def span(self) -> float:
        """Seconds that the time axis covers."""
        age = self._now - self._points[0].at if self._points else 0.0
        return next((span for span in SPANS if age <= span), max(SPANS))

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Wide and not high."""
        return QSize(640, HEIGHT + 40)

    @Slot()
    def _repaint(self) -> None:
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Draw grid, lines and legend."""
        painter = QPainter(self)
        if self._card is None:
            painter.fillRect(self.rect(), QColor(self._appearance.theme.surface))
            painter.end()
            return
        painter.setFont(_small(self.font()))
        marks = ticks(max((v for point in self._points for v in point.values if v is not None), default=0.0))
        names = [value_words(mark, self._card.unit) for mark in marks]
        metrics = QFontMetrics(painter.font())
        left = LEFT + max(metrics.horizontalAdvance(name) for name in names) + 8
        plot = QRectF(left, TOP, self.width() - left - RIGHT, self.height() - TOP - BOTTOM)
        painter.drawPixmap(0, 0, self._ground(plot, marks, names))
        self._paint_lines(painter, plot, marks[-1])
        painter.end()

    def _ground(self, plot: QRectF, marks: Sequence[float], names: Sequence[str]) -> QPixmap:
        """Grid and legend, drawn anew only when they are others: words take most of a picture's time."""
        scale, theme = self.devicePixelRatioF(), self._appearance.theme
        key = (self._card, plot.getRect(), tuple(names), self.span, scale, theme)
        if self._grid is None or self._grid[0] != key:
            ground = QPixmap(self.size() * scale)
            ground.setDevicePixelRatio(scale)
            ground.fill(QColor(theme.surface))
            painter = QPainter(ground)
            painter.setFont(_small(self.font()))
            self._paint_grid(painter, plot, list(zip(marks, names, strict=True)))
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._paint_legend(painter, plot.left(), QFontMetrics(painter.font()))
            painter.end()
            self._grid = (key, ground)
        return self._grid[1]

    def _paint_grid(self, painter: QPainter, plot: QRectF, marks: Sequence[tuple[float, str]]) -> None:
        theme = self._appearance.theme
        grid, ink = QPen(QColor(theme.border), 1), QPen(QColor(theme.muted))
        for mark, name in marks:
            y = round(plot.bottom() - plot.height() * mark / marks[-1][0]) + 0.5
            painter.setPen(grid)
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.setPen(ink)
            room = QRectF(0, y - 10, plot.left() - 8, 20)
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
        painter.setPen(ink)
        parts = SPANS[self.span] if plot.width() > 420 else 1
        for part in range(parts + 1):
            words = ago_words(self.span * (parts - part) / parts)
            x = plot.left() + plot.width() * part / parts
            align = {0: Qt.AlignmentFlag.AlignLeft, parts: Qt.AlignmentFlag.AlignRight}
            at = x if not part else x - 100 if part == parts else x - 50
            painter.drawText(
                QRectF(at, plot.bottom() + 6, 100, 18), align.get(part, Qt.AlignmentFlag.AlignHCenter), words
            )

    def _paint_lines(self, painter: QPainter, plot: QRectF, highest: float) -> None:
        assert self._card is not None
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setClipRect(plot.adjusted(-3, -3, 3, 3))
        begin, span = self._now - self.span, self.span
        left, width, bottom, height = plot.left(), plot.width(), plot.bottom(), plot.height()
        for line in range(len(self._card.lines)):
            pen = self._pen(line)
            painter.setPen(pen)
            for run in runs(self._points, line):
                drawn = [
                    QPointF(left + width * (at - begin) / span, bottom - height * value / highest)
                    for at, value in thinned(run, COLUMN * span / max(1.0, width))
                ]
                _draw(painter, drawn, is_solid=pen.style() == Qt.PenStyle.SolidLine)

    def _paint_legend(self, painter: QPainter, left: float, metrics: QFontMetrics) -> None:
        assert self._card is not None
        x = left
        for line, name in enumerate(self._card.lines):
            painter.setPen(self._pen(line))
            painter.drawLine(QPointF(x, 17), QPointF(x + 24, 17))
            painter.setPen(QColor(self._appearance.theme.text))
            painter.drawText(QPointF(x + 30, 17 + metrics.ascent() / 2 - 1), name)
            x += 30 + metrics.horizontalAdvance(name) + 18

    def _pen(self, line: int) -> QPen:
        pen = QPen(QColor(colour_of(line, self._appearance.theme)), 2, DASHES[line % len(DASHES)])
        pen.setJoinStyle(Qt.PenJoinStyle.BevelJoin)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        return pen


def _draw(painter: QPainter, points: Sequence[QPointF], is_solid: bool) -> None:
    """A line through `points`, in pieces: Qt takes a hundred times as long for a polyline of a thousand.

    What is narrower than a line is wide is made wider, to be seen.
    """
    if points[-1].x() - points[0].x() < LEAST:
        painter.drawPolyline([points[0] - QPointF(1, 0), *points, points[-1] + QPointF(1, 0)])
    elif is_solid:
        painter.drawLines([QLineF(one, other) for one, other in pairwise(points)])
    else:
        for first in range(0, len(points) - 1, PIECE):
            painter.drawPolyline(QPolygonF(points[first : first + PIECE + 1]))


def _small(font: QFont) -> QFont:
    made = QFont(font)
    made.setPixelSize(SMALL_PX)
    return made
