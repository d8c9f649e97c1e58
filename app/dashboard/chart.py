"""A chart of lines over the last minutes, painted with the theme's colours."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Slot
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.appearance import Appearance
from app.dashboard.axis import ago_words, ticks
from app.dashboard.ink import Ink, Scale
from app.dashboard.live_cards import Card, value_words
from app.dashboard.palette import colour_of
from app.dashboard.series import Point
from app.dashboard.strokes import Extremes, since

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
_SMALL_PX = 11


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
        self._extremes: list[Extremes] = []
        self._grid: tuple[object, QPixmap] | None = None
        self._ink = Ink()
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        appearance.changed.connect(self._repaint)

    @property
    def points(self) -> Sequence[Point]:
        """The samples on show."""
        return self._points

    def show_series(self, card: Card, points: Sequence[Point], now: float) -> None:
        """Draw `points`, samples of the card's lines; `now` is the right end of the time axis, in seconds."""
        is_new = (card, points) != (self._card, self._points)
        if is_new:
            self._weigh(card, points)
        self._card, self._points, self._now = card, points, now
        if is_new:
            self.setAccessibleName(f"Chart: {card.title}")
            self.setAccessibleDescription(self.words)
        if is_new or (points and now - points[-1].at <= max(SPANS)):  # what is older has left the chart
            self.update()

    @property
    def words(self) -> str:
        """The least, the most and the last value of each line."""
        if self._card is None:
            return ""
        said: list[str] = []
        for name, extremes in zip(self._card.lines, self._extremes, strict=True):
            if extremes.known:
                least, most, last = (value_words(value, self._card.unit) for value in extremes.known)
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
        marks = ticks(max((extremes.known[1] for extremes in self._extremes if extremes.known), default=0.0))
        names = [value_words(mark, self._card.unit) for mark in marks]
        metrics = QFontMetrics(small(self.font()))
        left = LEFT + max(metrics.horizontalAdvance(name) for name in names) + 8
        plot = QRectF(left, TOP, self.width() - left - RIGHT, self.height() - TOP - BOTTOM)
        painter.drawPixmap(0, 0, self._ground(plot, marks, names))
        if plot.width() > 0:
            scale = Scale(plot.width(), plot.height(), self.span, marks[-1], self.devicePixelRatioF())
            painter.translate(plot.topLeft())
            self._ink.paint(painter, scale, self._points, self._now, self._pens())
        painter.end()

    def _weigh(self, card: Card, points: Sequence[Point]) -> None:
        """Bring each line's extremes up to date: with what is new, and without what has gone."""
        new = since(points, self._points[-1] if self._points else None) if card is self._card else None
        if new is None:
            new, self._extremes = points, [Extremes() for _ in card.lines]
        for point in new:
            for extremes, value in zip(self._extremes, point.values, strict=True):
                if value is not None:
                    extremes.add(point.at, value)
        for extremes in self._extremes:
            extremes.drop(points[0].at if points else 0.0)

    def _ground(self, plot: QRectF, marks: Sequence[float], names: Sequence[str]) -> QPixmap:
        """Grid and legend, drawn anew only when they are others: words take most of a picture's time."""
        scale, theme = self.devicePixelRatioF(), self._appearance.theme
        key = (self._card, plot.getRect(), tuple(names), self.span, scale, theme)
        if self._grid is None or self._grid[0] != key:
            ground = QPixmap(self.size() * scale)
            ground.setDevicePixelRatio(scale)
            ground.fill(QColor(theme.surface))
            painter = QPainter(ground)
            painter.setFont(small(self.font()))
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

    def _paint_legend(self, painter: QPainter, left: float, metrics: QFontMetrics) -> None:
        assert self._card is not None
        x = left
        for line, name in enumerate(self._card.lines):
            painter.setPen(self._pen(line))
            painter.drawLine(QPointF(x, 17), QPointF(x + 24, 17))
            painter.setPen(QColor(self._appearance.theme.text))
            painter.drawText(QPointF(x + 30, 17 + metrics.ascent() / 2 - 1), name)
            x += 30 + metrics.horizontalAdvance(name) + 18

    def _pens(self) -> list[QPen]:
        """One for each line."""
        assert self._card is not None
        return [self._pen(line) for line in range(len(self._card.lines))]

    def _pen(self, line: int) -> QPen:
        pen = QPen(QColor(colour_of(line, self._appearance.theme)), 2, DASHES[line % len(DASHES)])
        pen.setJoinStyle(Qt.PenJoinStyle.BevelJoin)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        return pen


def small(font: QFont) -> QFont:
    """The font of what is written in a chart."""
    made = QFont(font)
    made.setPixelSize(_SMALL_PX)
    return made
