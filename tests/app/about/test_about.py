"""What leads to About, and what it leads to."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

from PySide6.QtGui import QAction
from pytestqt.qtbot import QtBot

from app import VERSION
from app.about.about_dialog import AboutDialog
from app.about.build import Build
from app.about.door import AboutDoor
from app.about.licences_dialog import LicencesDialog
from app.about.text_dialog import TextDialog
from app.about.words import NO_NEWS, build_words, news, notes_text
from app.downloads.lanes import Lanes
from app.paths import Paths
from app.settings_desk import SettingsDesk
from app.updates.changelog import Changelog
from app.updates.channel import Channel
from app.updates.manifest import Notes
from app.updates.memory import MemoryFile
from app.widgets.settings_dialog import SettingsDialog
from tests.app.conftest import OpenDesktop
from tests.app.updates.conftest import MANIFEST, Site


def test_settings_lead_to_about_and_about_to_the_rest(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    desktop.pane.settings_wanted.emit()
    settings = desktop.window.findChild(SettingsDialog)
    assert settings
    settings.about_wanted.emit()
    about = desktop.window.findChild(AboutDialog)
    assert about
    assert about.build.text().startswith(f"Version {VERSION} · ")
    about.news.click()
    about.licences.click()
    assert desktop.window.findChild(TextDialog)
    licences = desktop.window.findChild(LicencesDialog)
    assert licences
    qtbot.waitUntil(lambda: licences.list.count() > 0)


def test_a_macs_menu_has_them_where_macs_have_them(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    actions = desktop.about.actions()
    desktop.window.fill_help_menu(actions)
    roles = {action.text(): action.menuRole() for action in actions}
    assert roles["About MLXR"] == QAction.MenuRole.AboutRole
    assert roles["Check for updates…"] == QAction.MenuRole.ApplicationSpecificRole
    actions[0].trigger()
    assert desktop.window.findChild(AboutDialog)


def test_licences_may_be_closed_before_they_are_read(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    desktop.about.show_licences()
    dialog = desktop.window.findChild(LicencesDialog)
    assert dialog
    dialog.accept()
    qtbot.waitUntil(lambda: desktop.window.findChild(LicencesDialog) is None)


def test_after_an_update_the_window_says_so_once(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    home = open_desktop()._paths.home
    memory = MemoryFile(Paths(home).updates)
    qtbot.waitUntil(lambda: memory.read().ran == VERSION)  # or its own note comes behind the next line
    memory.note(ran="0.0.1")
    desktop = open_desktop(home=home)
    qtbot.waitUntil(lambda: desktop.window.toast.text == f"This is MLXR {VERSION} now")
    assert memory.read().ran == VERSION


def test_an_update_that_can_be_had_tells_its_own_news(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop()
    desktop.about.updates._know(MANIFEST, None)
    desktop.about.show_news()
    dialog = desktop.window.findChild(TextDialog)
    assert dialog
    assert dialog.view.toPlainText().splitlines() == ["0.2.0, 2026-11-22", "Added", "Wings"]


def test_build_is_told_in_a_line() -> None:
    commit = "92e87aafb49f69ced95924701a55b71cf23d626e"
    assert (
        build_words(Build(commit, "macos26-arm64")) == f"Version {VERSION} · 92e87aa · for macOS 26 and later"
    )
    assert build_words(Build()) == f"Version {VERSION} · run from its source"


def test_news_are_those_of_this_version_or_of_what_comes() -> None:
    log = Changelog(
        "- Soon", (Notes("0.2.0", "2026-11-22", "- Wings"), Notes("0.1.0", "2026-10-01", "- Legs"))
    )
    assert news(log, "0.1.0") == "## 0.1.0, 2026-10-01\n\n- Legs"
    assert news(log, "0.3.0") == "## Not released yet\n\n- Soon"
    assert news(replace(log, unreleased=""), "0.3.0") == NO_NEWS
    assert notes_text(()) == NO_NEWS


def test_a_server_that_does_not_answer_does_not_hold_up_the_end(
    open_desktop: OpenDesktop,
    qtbot: QtBot,
    site: Site,
    channel: Channel,
    trusted: ssl.SSLContext,
    tmp_path: Path,
) -> None:
    desktop = open_desktop()
    post = desktop.queue.post
    paths = Paths(tmp_path / "other")
    settings = SettingsDesk(
        desktop.chosen, desktop.appearance, Lanes(3), desktop.engine.submit, desktop.window.toast, paths
    )
    window, models, look = desktop.window, desktop.models, desktop.appearance
    door = AboutDoor(look, window, paths, post, desktop.chosen, models, settings, channel, trusted)
    site.gate.clear()
    door.updates.look()
    qtbot.waitUntil(lambda: len(site.asked) == 1)
    door.close(60)
    assert door._asking.is_running, "the end waited for the answer"
    site.gate.set()
