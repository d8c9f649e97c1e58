"""A bar of pages: in use, kept for later, free."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Slot
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.appearance import Appearance
from app.dashboard.cache_figures import Occupancy
from app.theme import Theme

HEIGHT = 14


class OccupancyBar(QWidget):
    """Shows an Occupancy; what is in use is dark, what is kept is hatched."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._pages = Occupancy(0, 0, 0)
        self.setFixedHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        appearance.changed.connect(self._repaint)

    def show_pages(self, pages: Occupancy, words: str) -> None:
        """Show these; `words` say the same."""
        self._pages = pages
        self.setAccessibleName(words)
        self.setToolTip(words)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Thin."""
        return QSize(200, HEIGHT)

    @Slot()
    def _repaint(self) -> None:
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Draw the parts beside each other."""
        theme, pages = self._appearance.theme, self._pages
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(QRectF(self.rect()), HEIGHT / 2, HEIGHT / 2)
        painter.setClipPath(outline)
        painter.fillRect(self.rect(), QColor(theme.hover))
        if pages.total:
            part, whole = self._width_of(pages.used), float(self.height())
            painter.fillRect(QRectF(0, 0, part, whole), QColor(theme.text))
            hatch(painter, QRectF(part, 0, self._width_of(pages.cached), whole), theme)
        painter.end()

    def _width_of(self, pages: int) -> float:
        """Of a part of so many pages; it is seen however few they are, round as the bar's end is."""
        width = self.width() * pages / self._pages.total
        return max(width, HEIGHT / 2) if pages else 0.0


def hatch(painter: QPainter, part: QRectF, theme: Theme) -> None:
    """Draw what is kept, in colours that no chat has."""
    painter.setClipRect(part, Qt.ClipOperation.IntersectClip)
    painter.fillRect(part, QColor(theme.muted))
    painter.setPen(QColor(theme.surface))
    for x in range(int(part.left()), int(part.right()) + HEIGHT, 6):
        painter.drawLine(x, 0, x - HEIGHT, HEIGHT)
