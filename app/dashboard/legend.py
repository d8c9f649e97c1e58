"""What the cells of the page map mean, a cell of each kind."""

from __future__ import annotations

from PySide6.QtGui import QImage

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


def legend_cells(theme: Theme) -> dict[str, QImage]:
    """A picture of a cell by what it means."""
    inks = Inks(theme.hover, theme.surface, theme.text)
    return {words: _cell(bytes([state]), colour_of(0, theme), inks) for words, state in KINDS.items()}


def _cell(state: bytes, colour: str, inks: Inks) -> QImage:
    pixels = paint(Grid(1, 1, 1, SIDE), state, [colour], [0], inks)
    height, width, _ = pixels.shape
    return QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32).copy()
