"""Icons: every drawing renders in one colour and follows the tint."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from app.icons import APP_SIZES, ICONS_FOLDER, SCALES, app_icon, icon, pixmap

NAMES = sorted(path.stem for path in ICONS_FOLDER.glob("*.svg"))


@pytest.mark.parametrize("name", NAMES)
def test_each_drawing_shows_in_its_tint_only(application: QApplication, name: str) -> None:
    image = pixmap(name, "#cc3311", 20, 2).toImage()
    pixels = [image.pixelColor(x, y) for x in range(40) for y in range(40)]
    seen = [pixel for pixel in pixels if pixel.alpha() > 200]
    assert len(seen) > 20
    assert all(abs(pixel.red() - 0xCC) < 8 and abs(pixel.green() - 0x33) < 8 for pixel in seen)
    assert any(pixel.alpha() == 0 for pixel in pixels)


@pytest.mark.parametrize("name", NAMES)
def test_drawings_have_no_colours_of_their_own(name: str) -> None:
    drawing = (ICONS_FOLDER / f"{name}.svg").read_text("utf-8")
    assert "#" not in drawing
    assert "currentColor" in drawing


def test_icons_are_sharp_on_every_screen(application: QApplication) -> None:
    sizes = {(size.width(), size.height()) for size in icon("send", "#000000", 20).availableSizes()}
    assert sizes == {(20 * scale, 20 * scale) for scale in SCALES}


def test_the_apps_icon_is_in_colours_of_its_own_at_every_size(application: QApplication) -> None:
    for size in APP_SIZES:
        image = app_icon().pixmap(size, size).toImage()
        assert image.width() == size
        assert image.pixelColor(0, 0).alpha() == 0
        ground = image.pixelColor(size // 2, size // 5)
        assert (ground.alpha(), ground.blue() > ground.red() + 60) == (255, True)
    assert not application.windowIcon().isNull()


def test_an_unknown_icon_is_an_error(application: QApplication) -> None:
    with pytest.raises(OSError, match="nothing"):
        icon("nothing-of-that-name", "#000000")
