"""The .icns: read back by a reader of the test's own, and by Qt where the images are PNG."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from PySide6.QtGui import QColor, QImage

from app.theme import contrast

Load = Callable[[str], ModuleType]

# Types and their pixels, as Apple's iconutil writes them for a full set.
FULL_SET = {
    "ic04": 16,
    "ic05": 32,
    "ic07": 128,
    "ic08": 256,
    "ic09": 512,
    "ic10": 1024,
    "ic11": 32,
    "ic12": 64,
    "ic13": 256,
    "ic14": 512,
}


def entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The images of an .icns by type; fails where a length does not add up."""
    magic, length = struct.unpack_from(">4sI", data)
    assert (magic, length) == (b"icns", len(data))
    at = 8
    while at < len(data):
        kind, length = struct.unpack_from(">4sI", data, at)
        assert length > 8
        assert at + length <= len(data)
        yield kind.decode(), data[at + 8 : at + length]
        at += length


def unpacked(data: bytes) -> bytes:
    """Runs of icns: below 128 so many bytes and one follow, else one byte is repeated, less 125 times."""
    out = bytearray()
    at = 0
    while at < len(data):
        count = data[at]
        if count < 128:
            out += data[at + 1 : at + 2 + count]
            at += 2 + count
        else:
            out += data[at + 1 : at + 2] * (count - 125)
            at += 2
    return bytes(out)


def image_of(kind: str, data: bytes) -> QImage:
    if not data.startswith(b"ARGB"):
        image = QImage.fromData(data, "PNG")
        assert not image.isNull()
        return image
    size = FULL_SET[kind]
    channels = unpacked(data[4:])
    assert len(channels) == 4 * size * size
    alpha, red, green, blue = (channels[i * size * size : (i + 1) * size * size] for i in range(4))
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    for i in range(size * size):
        image.setPixelColor(i % size, i // size, QColor(red[i], green[i], blue[i], alpha[i]))
    return image


@pytest.fixture
def images(macos_module: Load, tmp_path: Path) -> dict[str, QImage]:
    path = tmp_path / "new folder" / "MLXR.icns"
    macos_module("icns").write_icon(path)
    return {kind: image_of(kind, data) for kind, data in entries(path.read_bytes())}


def test_it_has_every_size_of_a_full_set(images: dict[str, QImage]) -> None:
    assert {kind: image.width() for kind, image in images.items()} == FULL_SET
    assert all(image.width() == image.height() for image in images.values())


def test_every_size_shows_the_same_drawing(images: dict[str, QImage]) -> None:
    for image in images.values():
        size = image.width()

        def at(x: float, y: float, image: QImage = image, size: int = size) -> QColor:
            return image.pixelColor(round(x * (size - 1)), round(y * (size - 1)))

        assert at(0, 0).alpha() == at(1, 1).alpha() == 0
        ground, page = at(0.5, 0.2), at(0.36, 0.64)
        assert (ground.alpha(), page.alpha()) == (255, 255)
        assert ground.blue() > ground.red() + 60  # the theme's teal
        assert contrast(page.name(), ground.name()) > 3


def test_a_drawing_that_is_none_is_an_error(macos_module: Load, tmp_path: Path) -> None:
    (tmp_path / "no.svg").write_text("<html>", encoding="utf-8")
    with pytest.raises(ValueError, match=r"no\.svg is not a drawing"):
        macos_module("icns").icon_file(tmp_path / "no.svg")
