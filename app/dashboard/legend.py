"""What the cells of the page map mean, a cell of each kind, and the bar above it."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter

from app.dashboard.occupancy_bar import hatch
from app.dashboard.page_cells import Grid, Inks, paint
from app.dashboard.palette import colour_of
from app.theme import Theme
from engine import CACHED, ON_SSD, RUNNING, SHARED

SIDE = 15
KINDS = {
    "free": 0,
    "in use": RUNNING,
    "kept, colour by chat": CACHED,
    "shared": CACHED | SHARED,
    "on SSD too": CACHED | ON_SSD,
}
IN_BAR = "kept, in the bar"


def legend_cells(theme: Theme) -> dict[str, QImage]:
    """A picture of a cell, and of a piece of the bar, by what it means."""
    inks = Inks(theme.hover, theme.surface, theme.text)
    cells = {words: _cell(bytes([state]), colour_of(0, theme), inks) for words, state in KINDS.items()}
    return cells | {IN_BAR: _piece(theme)}


def _piece(theme: Theme) -> QImage:
    image = QImage(SIDE, SIDE, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    hatch(painter, QRectF(image.rect()), theme)
    painter.end()
    return image


def _cell(state: bytes, colour: str, inks: Inks) -> QImage:
    pixels = paint(Grid(1, 1, 1, SIDE), state, [colour], [0], inks)
    height, width, _ = pixels.shape
    return QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32).copy()
