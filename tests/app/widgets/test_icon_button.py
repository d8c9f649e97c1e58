"""Icon buttons take the theme's colours and can be read aloud."""

from __future__ import annotations

from PySide6.QtGui import QColor, QIcon
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.theme import DARK, LIGHT, halfway
from app.widgets.icon_button import IconButton


def colours(icon: QIcon, mode: QIcon.Mode = QIcon.Mode.Normal) -> set[str]:
    """The opaque colours of an icon."""
    image = icon.pixmap(20, 20, mode).toImage()
    pixels = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
    return {QColor(pixel.rgb()).name() for pixel in pixels if pixel.alpha() == 255}


def test_the_theme_tints_it(qtbot: QtBot, appearance: Appearance) -> None:
    button = IconButton(appearance, "stop", "Stop", colour="accent")
    qtbot.addWidget(button)
    assert colours(button.icon()) == {LIGHT.accent}
    appearance.choose("dark")
    assert colours(button.icon()) == {DARK.accent}
    button.set_icon("stop", "danger")
    assert colours(button.icon()) == {DARK.danger}


def test_it_is_dim_while_disabled(qtbot: QtBot, appearance: Appearance) -> None:
    button = IconButton(appearance, "stop", "Stop", colour="text")
    qtbot.addWidget(button)
    appearance.choose("dark")
    assert colours(button.icon(), QIcon.Mode.Disabled) == {halfway(DARK.muted, DARK.window)}
    assert colours(button.icon()) == {DARK.text}


def test_it_has_words(qtbot: QtBot, appearance: Appearance) -> None:
    button = IconButton(appearance, "send", "Send")
    qtbot.addWidget(button)
    assert (button.accessibleName(), button.toolTip()) == ("Send", "Send")
