"""A chart of values by buckets of time, painted with the theme's colours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, QSize, Qt, Slot
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.appearance import Appearance
from app.dashboard.axis import ticks
from app.dashboard.chart import BOTTOM, DASHES, HEIGHT, LEFT, RIGHT, TOP, small
from app.dashboard.history_figures import Plot
from app.dashboard.live_cards import value_words
from app.dashboard.palette import colour_of

MARKER = 3.0
"""Half of a marker's width: discs on the first line, squares on the second."""

LEAST_ROOM = 64
"""Pixels between words below the chart; where there is less, every other one is left out."""

Points = Sequence[tuple[int, float]]


class HistoryChart(QWidget):
    """Shows a Plot; in words it is in its accessible description, and in a table beside."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMinimumHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._appearance = appearance
        self._plot: Plot | None = None
        appearance.changed.connect(self._repaint)

    @property
    def plot(self) -> Plot | None:
        """What is on show."""
        return self._plot

    def show_plot(self, plot: Plot) -> None:
        """Draw it."""
        if plot == self._plot:
            return
        self._plot = plot
        self.setAccessibleName(f"Chart: {plot.title}")
        self.setAccessibleDescription(_description(plot))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Wide and not high."""
        return QSize(640, HEIGHT + 30)

    def words_at(self, x: float) -> str:
        """What is known of the bucket at `x`, in pixels from the left; "" beside the plot."""
        if self._plot is None:
            return ""
        area, count = self._area(self._axis()), len(self._plot.buckets)
        place = int((x - area.left()) / area.width() * count)
        if x < area.left() or place >= count:
            return ""
        lines = [
            f"{name}: {value_words(values[place], self._plot.unit)}"
            for name, values in zip(self._plot.names, self._plot.values, strict=True)
        ]
        return "\n".join([self._plot.buckets[place], *lines])

    def event(self, event: QEvent) -> bool:
        """The bucket under the pointer is told on hover."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.words_at(event.pos().x()), self)
            return True
        return super().event(event)

    @Slot()
    def _repaint(self) -> None:
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Draw grid, lines and legend."""
        if self._plot is None:
            return
        painter = QPainter(self)
        painter.setFont(small(self.font()))
        axis = self._axis()
        area = self._area(axis)
        self._paint_values(painter, area, axis)
        self._paint_times(painter, area, self._plot)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for line, values in enumerate(self._plot.values):
            points = [(place, value) for place, value in enumerate(values) if value is not None]
            self._paint_line(painter, area, points, line, axis[-1][0])
        self._paint_legend(painter, area.left(), self._plot.names)
        painter.end()

    def _axis(self) -> list[tuple[float, str]]:
        """Values at the left, and their words."""
        assert self._plot is not None
        plot = self._plot
        marks = ticks(max((v for values in plot.values for v in values if v is not None), default=0.0))
        if plot.is_count:
            marks = [mark for mark in marks if mark == int(mark)]
        return [(mark, value_words(mark, plot.unit)) for mark in marks]

    def _area(self, axis: Sequence[tuple[float, str]]) -> QRectF:
        metrics = QFontMetrics(small(self.font()))
        left = LEFT + max(metrics.horizontalAdvance(words) for _, words in axis) + 8
        return QRectF(left, TOP, max(1.0, self.width() - left - RIGHT), self.height() - TOP - BOTTOM)

    def _paint_values(self, painter: QPainter, area: QRectF, axis: Sequence[tuple[float, str]]) -> None:
        theme = self._appearance.theme
        for mark, words in axis:
            y = round(area.bottom() - area.height() * mark / axis[-1][0]) + 0.5
            painter.setPen(QPen(QColor(theme.border), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(QColor(theme.muted))
            room = QRectF(0, y - 10, area.left() - 8, 20)
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, words)

    def _paint_times(self, painter: QPainter, area: QRectF, plot: Plot) -> None:
        painter.setPen(QColor(self._appearance.theme.muted))
        step = 1 if area.width() / len(plot.marks) >= LEAST_ROOM else 2
        for share, words in plot.marks[::step]:
            x = area.left() + area.width() * share
            align = Qt.AlignmentFlag.AlignHCenter
            room = QRectF(x - 60, area.bottom() + 6, 120, 18)
            if share == 0.0:
                align, room = Qt.AlignmentFlag.AlignLeft, room.translated(60, 0)
            elif share == 1.0:
                align, room = Qt.AlignmentFlag.AlignRight, room.translated(-60, 0)
            painter.drawText(room, align, words)

    def _paint_line(self, painter: QPainter, area: QRectF, points: Points, line: int, highest: float) -> None:
        """Markers in the middle of buckets, joined where nothing is missing between them."""
        assert self._plot is not None
        width = area.width() / len(self._plot.buckets)
        drawn = [
            (place, QPointF(area.left() + width * (place + 0.5), area.bottom() - area.height() * v / highest))
            for place, v in points
        ]
        painter.setPen(self._pen(line))
        painter.drawLines(
            [QLineF(one, other) for (at, one), (then, other) in pairwise(drawn) if then == at + 1]
        )
        for place, point in drawn:
            if self._plot.values[line][place]:
                self._paint_marker(painter, point, line)

    def _paint_marker(self, painter: QPainter, at: QPointF, line: int) -> None:
        colour = QColor(colour_of(line, self._appearance.theme))
        room = QRectF(at.x() - MARKER, at.y() - MARKER, 2 * MARKER, 2 * MARKER)
        if line:
            painter.fillRect(room, colour)
            return
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawEllipse(room)
        painter.setBrush(Qt.BrushStyle.NoBrush)

    def _paint_legend(self, painter: QPainter, left: float, names: Sequence[str]) -> None:
        metrics, x = QFontMetrics(painter.font()), left
        most = (self.width() - left - RIGHT) / max(1, len(names)) - 48
        for line, name in enumerate(names):
            painter.setPen(self._pen(line))
            painter.drawLine(QPointF(x, 17), QPointF(x + 24, 17))
            self._paint_marker(painter, QPointF(x + 12, 17), line)
            painter.setPen(QColor(self._appearance.theme.text))
            words = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, int(most))
            painter.drawText(QPointF(x + 30, 17 + metrics.ascent() / 2 - 1), words)
            x += 30 + metrics.horizontalAdvance(words) + 18

    def _pen(self, line: int) -> QPen:
        pen = QPen(QColor(colour_of(line, self._appearance.theme)), 2, DASHES[line % len(DASHES)])
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        return pen


def _description(plot: Plot) -> str:
    """The least and the most value of each line."""
    said: list[str] = []
    for name, values in zip(plot.names, plot.values, strict=True):
        known = [value for value in values if value is not None]
        if known:
            least, most = (value_words(value, plot.unit) for value in (min(known), max(known)))
            said.append(f"{name}: least {least}, most {most}")
    return "; ".join(said) or "Nothing yet"
