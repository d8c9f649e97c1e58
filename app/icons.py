"""One-colour icons: the drawings of resources/icons, tinted and rendered sharp for every screen."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

ICONS_FOLDER = Path(__file__).resolve().parents[1] / "resources" / "icons"
SCALES = (1, 2, 3)


@lru_cache(maxsize=256)
def icon(name: str, colour: str, size: int = 20) -> QIcon:
    """The drawing `name` in `colour` (#rrggbb), `size` pixels square. Raises OSError when there is none."""
    made = QIcon()
    for scale in SCALES:
        made.addPixmap(pixmap(name, colour, size, scale))
    return made


def pixmap(name: str, colour: str, size: int, scale: float = 1) -> QPixmap:
    """The drawing `name`, `size` device-independent pixels square. Raises OSError when there is none."""
    drawing = (ICONS_FOLDER / f"{name}.svg").read_text("utf-8").replace("currentColor", colour)
    image = QPixmap(round(size * scale), round(size * scale))
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(drawing.encode())).render(painter, QRectF(0, 0, size * scale, size * scale))
    painter.end()
    image.setDevicePixelRatio(scale)
    return image
