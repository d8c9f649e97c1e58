"""The switch: clicked anywhere, by key too, and drawn in the theme's colours."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from app.appearance import Appearance, Choice
from app.widgets.switch import RING, TRACK_HEIGHT, TRACK_WIDTH, Switch


@pytest.fixture
def switch(qtbot: QtBot, appearance: Appearance) -> Switch:
    switch = Switch(appearance, "Keep it on disk")
    qtbot.addWidget(switch)
    switch.show()
    return switch


@pytest.mark.parametrize("where", ["track", "words"])
def test_a_click_switches(qtbot: QtBot, switch: Switch, where: str) -> None:
    place = QPoint(8 if where == "track" else switch.width() - 4, switch.height() // 2)
    with qtbot.waitSignal(switch.clicked):
        qtbot.mouseClick(switch, Qt.MouseButton.LeftButton, pos=place)
    assert switch.isChecked()
    qtbot.keyClick(switch, Qt.Key.Key_Space)
    assert not switch.isChecked()


def colour_at(switch: Switch, x: int) -> QColor:
    return switch.grab().toImage().pixelColor(x, switch.height() // 2)


@pytest.mark.parametrize("look", ["light", "dark"])
def test_track_and_knob_follow_state_and_theme(
    qtbot: QtBot, appearance: Appearance, switch: Switch, look: Choice
) -> None:
    appearance.choose(look)
    theme, middle = appearance.theme, RING + TRACK_WIDTH // 2
    left, right = RING + TRACK_HEIGHT // 2, RING + TRACK_WIDTH - TRACK_HEIGHT // 2
    assert [colour_at(switch, x).name() for x in (left, middle + 2)] == [theme.window, theme.muted]
    switch.setChecked(True)
    assert [colour_at(switch, x).name() for x in (right, middle - 2)] == [theme.on_accent, theme.accent]
    appearance.choose("light")


def test_keys_are_shown_where_they_go(qtbot: QtBot, switch: Switch) -> None:
    switch.clearFocus()
    without = switch.grab().toImage()
    switch.window().activateWindow()
    switch.setFocus()
    qtbot.waitUntil(switch.hasFocus)
    assert switch.grab().toImage() != without


def test_the_words_are_never_cut(switch: Switch) -> None:
    words = switch.fontMetrics().horizontalAdvance(switch.text())
    assert switch.minimumSizeHint().width() >= RING + TRACK_WIDTH + words
    assert switch.accessibleName() == ""  # the words themselves are read
