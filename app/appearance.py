"""The theme in force: follows the system or the user's choice, and dresses the whole application in it."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from app.theme import DARK, LIGHT, Theme, style_sheet

Choice = Literal["system", "light", "dark"]


class Appearance(QObject):
    """Holds the theme; `changed(Theme)` tells those who paint with its colours themselves."""

    changed = Signal(object)

    def __init__(self, application: QApplication, choice: Choice = "system") -> None:
        super().__init__()
        self._application = application
        self._choice: Choice = choice
        self._theme: Theme | None = None
        application.styleHints().colorSchemeChanged.connect(self._apply)
        self._apply()

    @property
    def theme(self) -> Theme:
        """The theme in force."""
        return self._theme or LIGHT

    @property
    def choice(self) -> Choice:
        """What the user has chosen."""
        return self._choice

    def choose(self, choice: Choice) -> None:
        """Follow the system, or stay light or dark."""
        self._choice = choice
        self._apply()

    @Slot()
    def _apply(self) -> None:
        theme = {"light": LIGHT, "dark": DARK}.get(self._choice) or self._system_theme()
        if theme is self._theme:
            return
        self._theme = theme
        self._application.setPalette(_palette(theme))
        self._application.setStyleSheet(style_sheet(theme))
        self.changed.emit(theme)

    def _system_theme(self) -> Theme:
        return DARK if self._application.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT


def _palette(theme: Theme) -> QPalette:
    roles = {
        QPalette.ColorRole.Window: theme.window,
        QPalette.ColorRole.WindowText: theme.text,
        QPalette.ColorRole.Base: theme.surface,
        QPalette.ColorRole.AlternateBase: theme.sidebar,
        QPalette.ColorRole.Text: theme.text,
        QPalette.ColorRole.PlaceholderText: theme.muted,
        QPalette.ColorRole.Button: theme.surface,
        QPalette.ColorRole.ButtonText: theme.text,
        QPalette.ColorRole.ToolTipBase: theme.text,
        QPalette.ColorRole.ToolTipText: theme.window,
        QPalette.ColorRole.Highlight: theme.selection,
        QPalette.ColorRole.HighlightedText: theme.text,
        QPalette.ColorRole.Link: theme.accent,
        QPalette.ColorRole.LinkVisited: theme.accent,
    }
    palette = QPalette()
    for role, colour in roles.items():
        palette.setColor(role, QColor(colour))
    disabled = QPalette.ColorGroup.Disabled
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        palette.setColor(disabled, role, QColor(theme.muted))
    return palette
