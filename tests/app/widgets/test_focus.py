"""Where the keys are is shown once, by the theme's own frame."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.widgets.choice_row import ChoiceRow


@pytest.mark.parametrize("kind", ["", "keep", "link"])
def test_a_button_with_the_keys_has_the_theme_s_frame_and_no_other(
    qtbot: QtBot, appearance: Appearance, kind: str
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    before, button = QPushButton("Before", window), QPushButton("Words", window)
    button.setProperty("kind", kind)
    before.setGeometry(0, 60, 240, 48)
    button.setGeometry(0, 0, 240, 48)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    before.setFocus()
    qtbot.keyClick(before, Qt.Key.Key_Tab)
    assert button.hasFocus()
    found = button.grab().toImage()
    middle = found.height() // 2
    assert appearance.theme.accent in {found.pixelColor(x, middle).name() for x in range(3)}
    across = {found.pixelColor(200, y).name() for y in range(3, found.height() - 3)}
    assert len(across) == 1, "something is drawn within the frame"


def test_of_choices_the_one_that_holds_has_the_keys_first(qtbot: QtBot, appearance: Appearance) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    before = QPushButton("Before")
    row = ChoiceRow("Look", [("light", "Light"), ("dark", "Dark"), ("system", "Like the system")], "dark")
    column = QVBoxLayout(window)
    column.addWidget(before)
    column.addWidget(row)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    before.setFocus()
    qtbot.keyClick(before, Qt.Key.Key_Tab)
    assert row.button("dark").hasFocus()
    qtbot.keyClick(row.button("dark"), Qt.Key.Key_Right)
    assert row.current == "system"
    qtbot.keyClick(row.button("system"), Qt.Key.Key_Backtab)
    assert before.hasFocus()
    qtbot.keyClick(before, Qt.Key.Key_Tab)
    assert row.button("system").hasFocus()
