"""Settings in the window: what is chosen holds at once, or is offered to, and is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import text
from app.paths import Paths
from app.settings import SETTINGS, Settings
from app.widgets.settings_dialog import SettingsDialog
from app.wiring import Desktop
from engine import CacheCounts, LetRest, Stats
from tests.app.conftest import OpenDesktop
from tests.fakes.scripted_engine import ScriptedEngine

HOLD_AT_ONCE = {"last_model", "theme", "unload_after", "files_at_once", "check_updates"}


def open_settings(desktop: Desktop) -> SettingsDialog:
    desktop.pane.settings_wanted.emit()
    dialog = desktop.window.findChild(SettingsDialog)
    assert dialog
    return dialog


def close(dialog: SettingsDialog) -> None:
    dialog.accept()
    QApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)


def test_the_cache_settings_are_shown_as_chosen_and_kept(open_desktop: OpenDesktop, tmp_path: Path) -> None:
    desktop = open_desktop(home=tmp_path / "home")
    dialog = open_settings(desktop)
    dialog.cache.disk_cache.click()
    dialog.cache.kv_cache.button("8").click()
    dialog.cache.ssd_cap.choose("50")
    dialog.cache.kv_memory.choose("4")
    dialog.guesses.switch.click()
    close(dialog)
    again = open_settings(desktop)
    assert (again.cache.disk_cache.isChecked(), again.cache.kv_cache.current) == (False, "8")
    desktop.close()
    told = json.loads(Paths(tmp_path / "home").settings.read_text())
    assert (told["ssd_cache"], told["kv_cache"]) == ("off", "8")
    assert (told["ssd_cap"], told["kv_memory"], told["speculation"]) == ("50", "4", "off")
    later = open_settings(open_desktop(home=tmp_path / "home"))
    assert (later.cache.disk_cache.isChecked(), later.cache.kv_cache.current) == (False, "8")
    assert (later.cache.ssd_cap.current, later.cache.kv_memory.current) == ("50", "4")
    assert not later.guesses.switch.isChecked()
    assert later.cache.disk_use == text.DISK_UNUSED


def test_how_long_an_unused_model_stays_is_kept(open_desktop: OpenDesktop, tmp_path: Path) -> None:
    desktop = open_desktop(home=tmp_path / "home")
    dialog = open_settings(desktop)
    assert dialog.model.row.current == "30"
    dialog.model.row.button("5").click()
    assert isinstance(desktop.engine, ScriptedEngine)
    assert desktop.engine.commands[-1] == LetRest(300), "it is to hold at once"
    dialog.model.row.button("off").click()
    assert desktop.engine.commands[-1] == LetRest(None)
    dialog.model.row.button("5").click()
    desktop.close()
    assert json.loads(Paths(tmp_path / "home").settings.read_text())["unload_after"] == "5"
    later = open_settings(open_desktop(home=tmp_path / "home"))
    assert later.model.row.current == "5"


def test_what_holds_from_the_next_start_on_is_offered_to_hold_now(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop()
    dialog, toast = open_settings(desktop), desktop.window.toast
    dialog.look.button("dark").click()
    close(dialog)
    assert not toast.isVisible(), "the look holds at once"
    dialog = open_settings(desktop)
    dialog.cache.kv_cache.button("8").click()
    assert not toast.isVisible(), "not while more may be changed"
    close(dialog)
    assert toast.text == text.NEXT_START
    with qtbot.waitSignal(desktop.settings.restart_wanted):
        toast._button.click()
    dialog = open_settings(desktop)
    dialog.cache.kv_cache.button("full").click()
    close(dialog)
    assert not toast.isVisible(), "as at the start"


def is_offered(desktop: Desktop, chosen: Settings) -> bool:
    """Whether a start is offered where the settings are closed with these chosen."""
    desktop.chosen.change(lambda _: chosen)
    close(open_settings(desktop))
    is_shown = desktop.window.toast.isVisible()
    desktop.window.toast.hide()
    return is_shown


def test_every_setting_holds_at_once_or_is_offered_to(open_desktop: OpenDesktop) -> None:
    desktop = open_desktop()
    begun_with = desktop.chosen.values
    for name, setting in SETTINGS.items():
        now = getattr(begun_with, name)
        other = next(choice for choice in (*setting.choices, "/models/another") if choice != now)
        chosen = replace(begun_with, **{name: other})
        assert is_offered(desktop, chosen) == (name not in HOLD_AT_ONCE), name
    assert not is_offered(desktop, begun_with)


def test_the_settings_follow_what_the_disk_cache_takes(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    dialog = open_settings(desktop)
    assert dialog.cache.disk_use == "On disk now: – · written today (UTC): –"
    told = Stats("", 0, 0, 0.0, 0.0, 0, 512, 0, 0, cache=CacheCounts(ssd_bytes=2_100_000))
    desktop.disk_use.handle(told)
    assert dialog.cache.disk_use == "On disk now: 2.1 MB · written today (UTC): nothing"
    close(dialog)
    assert desktop.conversation.send("the dialog is gone")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert open_settings(desktop).cache.disk_use == "On disk now: nothing · written today (UTC): nothing"
