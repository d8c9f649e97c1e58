"""The settings dialog shows what is chosen and tells what is wished."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.widgets.settings_dialog import CHOICES, SettingsDialog


@pytest.mark.parametrize("name", [name for name, _ in CHOICES])
def test_the_choice_is_shown_and_told(qtbot: QtBot, appearance: Appearance, name: str) -> None:
    dialog = SettingsDialog(name, "/data/mlxr")
    qtbot.addWidget(dialog)
    assert dialog.choice(name).isChecked()
    other = next(choice for choice, _ in CHOICES if choice != name)
    with qtbot.waitSignal(dialog.theme_chosen) as chosen:
        dialog.choice(other).click()
    assert chosen.args == [other]
    assert any("/data/mlxr" in label.text() for label in dialog.findChildren(QLabel))
