"""Writes the app's icon as macOS wants it: one .icns with every size, rendered from the drawing.

Layout: "icns", the file's length, then per image its type, its length with these 8 bytes, and its data, all
big-endian (https://en.wikipedia.org/wiki/Apple_Icon_Image_format). The types are those that Apple's iconutil
writes: PNG images of 16 and 32 pixels, types icp4 and icp5, come out garbled in the Finder, hence ARGB.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRectF
from PySide6.QtGui import QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgRenderer

ICON = Path(__file__).resolve().parents[2] / "resources" / "icons" / "app" / "icon.svg"

# Pixels by type. Those of 2x screens: ic10 to ic14.
ARGB_TYPES = {"ic04": 16, "ic05": 32}
PNG_TYPES = {
    **{"ic07": 128, "ic08": 256, "ic09": 512, "ic10": 1024},
    **{"ic11": 32, "ic12": 64, "ic13": 256, "ic14": 512},
}

LONGEST_RUN = 128


def rendered(drawing: Path, width: int, height: int) -> QImage:
    """The drawing at that many pixels, on nothing. Raises ValueError where it cannot be read."""
    renderer = QSvgRenderer(str(drawing))
    if not renderer.isValid():
        raise ValueError(f"{drawing} is not a drawing that Qt reads")
    image = QImage(width, height, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(0)
    painter = QPainter(image)
    renderer.render(painter, QRectF(0, 0, width, height))
    painter.end()
    return image


def png(image: QImage) -> bytes:
    """The image as a PNG file."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"PNG")).write(image)
    return bytes(buffer.data().data())


def argb(image: QImage) -> bytes:
    """The image as icns' ARGB: "ARGB", then each channel's bytes in runs, a count less one before each."""
    straight = image.convertToFormat(QImage.Format.Format_ARGB32)
    pixels = bytes(straight.constBits())  # on little-endian processors: B, G, R, A
    channels = (pixels[first::4] for first in (3, 2, 1, 0))
    return b"ARGB" + b"".join(_runs(channel) for channel in channels)


def icon_file(drawing: Path = ICON) -> bytes:
    """A whole .icns of the drawing."""
    images = [(kind, argb(rendered(drawing, pixels, pixels))) for kind, pixels in ARGB_TYPES.items()]
    images += [(kind, png(rendered(drawing, pixels, pixels))) for kind, pixels in PNG_TYPES.items()]
    body = b"".join(_entry(kind, data) for kind, data in images)
    return _entry("icns", body)


def write_icon(path: Path) -> None:
    """Write the app's icon to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(icon_file())


def _entry(kind: str, data: bytes) -> bytes:
    return struct.pack(">4sI", kind.encode(), 8 + len(data)) + data


def _runs(channel: bytes) -> bytes:
    """Literal runs alone: at these sizes nothing is won by packing."""
    runs = [channel[start : start + LONGEST_RUN] for start in range(0, len(channel), LONGEST_RUN)]
    return b"".join(bytes([len(run) - 1]) + run for run in runs)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python packaging/macos/icns.py FILE.icns")
    write_icon(Path(sys.argv[1]))
