"""The settings dialog shows what is chosen and tells what is wished."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.settings import SETTINGS, Settings
from app.widgets.cache_section import KV_CHOICES
from app.widgets.settings_dialog import CHOICES, FILES_CHOICES, UNLOAD_CHOICES, SettingsDialog


def make(qtbot: QtBot, appearance: Appearance, settings: Settings) -> SettingsDialog:
    dialog = SettingsDialog(appearance, settings, "/data/mlxr")
    qtbot.addWidget(dialog)
    return dialog


@pytest.mark.parametrize("name", [name for name, _ in CHOICES])
def test_the_look_is_shown_and_told(qtbot: QtBot, appearance: Appearance, name: str) -> None:
    dialog = make(qtbot, appearance, Settings(theme=name))  # pyright: ignore[reportArgumentType]
    assert dialog.look.current == name
    other = next(choice for choice, _ in CHOICES if choice != name)
    with qtbot.waitSignal(dialog.theme_chosen) as chosen:
        dialog.look.button(other).click()
    assert chosen.args == [other]
    assert any("/data/mlxr" in label.text() for label in dialog.findChildren(QLabel))


def test_every_value_of_a_setting_can_be_chosen() -> None:
    assert tuple(name for name, _ in CHOICES) == SETTINGS["theme"].choices
    assert tuple(name for name, _ in KV_CHOICES) == SETTINGS["kv_cache"].choices
    assert tuple(name for name, _ in UNLOAD_CHOICES) == SETTINGS["unload_after"].choices
    assert tuple(name for name, _ in FILES_CHOICES) == SETTINGS["files_at_once"].choices


def test_one_choice_leaves_the_other_alone(qtbot: QtBot, appearance: Appearance) -> None:
    dialog = make(qtbot, appearance, Settings(theme="dark", kv_cache="8"))
    dialog.look.button("light").click()
    dialog.cache.kv_cache.button("4").click()
    assert (dialog.look.current, dialog.cache.kv_cache.current) == ("light", "4")


def test_what_is_opened_is_not_told_as_a_wish(qtbot: QtBot, appearance: Appearance) -> None:
    told: list[str] = []
    dialog = make(qtbot, appearance, replace(Settings(), ssd_cache="off", kv_cache="4"))
    for signal in (dialog.theme_chosen, dialog.cache.disk_cache_chosen, dialog.cache.kv_cache_chosen):
        signal.connect(told.append)
    dialog.show()
    dialog.accept()
    assert told == []
