"""The theme in force."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication

from app.appearance import Appearance
from app.theme import DARK, LIGHT, Theme


def test_a_choice_dresses_the_application(application: QApplication) -> None:
    appearance = Appearance(application, "dark")
    assert appearance.theme is DARK
    assert application.palette().color(QPalette.ColorRole.Window).name() == DARK.window
    assert DARK.accent in application.styleSheet()


def test_changes_are_told_once(application: QApplication) -> None:
    appearance = Appearance(application, "light")
    told: list[Theme] = []
    appearance.changed.connect(told.append)
    appearance.choose("light")
    appearance.choose("dark")
    appearance.choose("dark")
    assert told == [DARK]
    assert appearance.choice == "dark"


def test_the_system_is_followed(application: QApplication) -> None:
    appearance = Appearance(application, "system")
    system_is_dark = application.styleHints().colorScheme() == Qt.ColorScheme.Dark
    assert appearance.theme is (DARK if system_is_dark else LIGHT)
    application.styleHints().setColorScheme(Qt.ColorScheme.Dark)
    scheme = application.styleHints().colorScheme()  # platforms without schemes stay as they are
    assert appearance.theme is (DARK if scheme == Qt.ColorScheme.Dark else LIGHT)
    application.styleHints().unsetColorScheme()
