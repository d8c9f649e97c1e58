"""The settings dialog shows what is chosen and tells what is wished."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.settings import SETTINGS, Settings
from app.widgets.cache_section import KV_CHOICES, KV_MEMORY_CHOICES, SSD_CAP_CHOICES
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


@pytest.mark.parametrize("height", [560, 1200])
def test_done_is_in_sight_and_all_else_can_be_scrolled_to(
    qtbot: QtBot, appearance: Appearance, height: int
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(900, height)
    window.show()
    dialog = SettingsDialog(appearance, Settings(), "/data/mlxr", window)
    dialog.show()
    qtbot.waitUntil(dialog.isVisible)
    most = min(height, dialog.screen().availableGeometry().height())
    done = next(button for button in dialog.findChildren(QPushButton) if button.text() == "Done")
    assert dialog.height() <= most
    assert dialog.rect().contains(QRect(done.mapTo(dialog, QPoint()), done.size()))
    bar = dialog.scrolled.verticalScrollBar()
    last = next(label for label in dialog.findChildren(QLabel) if "/data/mlxr" in label.text())
    bar.setValue(bar.maximum())
    viewport = dialog.scrolled.viewport()
    assert viewport.rect().contains(QRect(last.mapTo(viewport, QPoint()), last.size()))


def test_it_grows_with_its_words(qtbot: QtBot, appearance: Appearance) -> None:
    dialog = make(qtbot, appearance, Settings())
    dialog.show()
    before = dialog.scrolled.wanted_height()
    with qtbot.waitSignal(dialog.scrolled.grown):
        dialog.show_disk_use("On disk now: 2.1 GB\n" + "It cannot be written. " * 20)
    assert dialog.scrolled.wanted_height() > before


def test_every_value_of_a_setting_can_be_chosen() -> None:
    assert tuple(name for name, _ in CHOICES) == SETTINGS["theme"].choices
    assert tuple(name for name, _ in KV_CHOICES) == SETTINGS["kv_cache"].choices
    assert tuple(name for name, _ in SSD_CAP_CHOICES) == SETTINGS["ssd_cap"].choices
    assert tuple(name for name, _ in KV_MEMORY_CHOICES) == SETTINGS["kv_memory"].choices
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
