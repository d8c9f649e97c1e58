"""Icons: the one-colour drawings of resources/icons, tinted and sharp on every screen, and the app's own."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

ICONS_FOLDER = Path(__file__).resolve().parents[1] / "resources" / "icons"
APP_ICON = ICONS_FOLDER / "app" / "icon.svg"
SCALES = (1, 2, 3)
APP_SIZES = (16, 32, 64, 128, 256)


@lru_cache(maxsize=256)
def icon(name: str, colour: str, size: int = 20) -> QIcon:
    """The drawing `name` in `colour` (#rrggbb), `size` pixels square. Raises OSError when there is none."""
    made = QIcon()
    for scale in SCALES:
        made.addPixmap(pixmap(name, colour, size, scale))
    return made


def app_icon() -> QIcon:
    """The app's icon, in its own colours."""
    made = QIcon()
    for size in APP_SIZES:
        made.addPixmap(_drawn(APP_ICON.read_bytes(), size))
    return made


def pixmap(name: str, colour: str, size: int, scale: float = 1) -> QPixmap:
    """The drawing `name`, `size` device-independent pixels square. Raises OSError when there is none."""
    drawing = (ICONS_FOLDER / f"{name}.svg").read_text("utf-8").replace("currentColor", colour)
    image = _drawn(drawing.encode(), size * scale)
    image.setDevicePixelRatio(scale)
    return image


def _drawn(drawing: bytes, pixels: float) -> QPixmap:
    image = QPixmap(round(pixels), round(pixels))
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(drawing)).render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    return image
