"""‹ 2 / 3 ›: shown where there are versions, by mouse and by keys."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.tree import Versions
from app.chat.version_switch import VersionSwitch


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    return window


def test_one_version_needs_no_switch(window: QWidget, appearance: Appearance) -> None:
    assert not VersionSwitch(appearance, Versions(1, 1), window).isVisible()


@pytest.mark.parametrize(("place", "earlier", "later"), [(1, False, True), (2, True, True), (3, True, False)])
def test_it_says_where_it_is_and_leads_on(
    window: QWidget, appearance: Appearance, place: int, earlier: bool, later: bool
) -> None:
    switch = VersionSwitch(appearance, Versions(place, 3), window)
    assert (switch.earlier.isEnabled(), switch.later.isEnabled()) == (earlier, later)
    label = switch.findChild(QLabel)
    assert (label.text(), label.accessibleName()) == (f"{place} / 3", f"Version {place} of 3")
    assert switch.earlier.accessibleName() == "Earlier version"
    assert switch.later.accessibleName() == "Later version"


def test_clicks_and_keys_step(qtbot: QtBot, window: QWidget, appearance: Appearance) -> None:
    switch = VersionSwitch(appearance, Versions(2, 3), window)
    switch.show()
    steps: list[int] = []
    switch.stepped.connect(steps.append)
    qtbot.mouseClick(switch.earlier, Qt.MouseButton.LeftButton)
    qtbot.keyClick(switch.later, Qt.Key.Key_Space)
    assert steps == [-1, 1]


@pytest.mark.parametrize(
    ("place", "step", "taken"), [(2, 1, "later"), (2, -1, "earlier"), (3, 1, "earlier"), (1, -1, "later")]
)
def test_the_keys_go_on_in_the_same_direction_while_they_can(
    qtbot: QtBot, window: QWidget, appearance: Appearance, place: int, step: int, taken: str
) -> None:
    switch = VersionSwitch(appearance, Versions(place, 3), window)
    switch.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    assert not switch.is_focused
    switch.take_focus(step)
    assert getattr(switch, taken).hasFocus()
    assert switch.is_focused
