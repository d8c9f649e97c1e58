"""The way to what MLXR says of itself: the windows are made when they are asked for, not at the start."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QDialog

from app import VERSION
from app.about import words
from app.about.build import this_build
from app.appearance import Appearance
from app.chosen_settings import ChosenSettings
from app.models.background import Background, Post
from app.models.models_view_model import ModelsViewModel
from app.paths import Paths
from app.settings_desk import SettingsDesk
from app.text import APP_NAME
from app.updates import words as update_words
from app.updates.changelog import bundled
from app.updates.channel import RELEASES, Channel
from app.updates.manifest import Manifest
from app.updates.memory import MemoryFile
from app.updates.update_check import UpdateCheck
from app.window import MainWindow

UNANSWERED_SECONDS = 1.0
"""For how long the end of the app waits for a server that does not answer."""


class AboutDoor:
    """Shows About, what is new and the licences; asks for updates where that is wanted."""

    def __init__(
        self,
        appearance: Appearance,
        window: MainWindow,
        paths: Paths,
        post: Post,
        chosen: ChosenSettings,
        models: ModelsViewModel,
        settings: SettingsDesk,
        channel: Channel = RELEASES,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        """`channel`: where releases are told; `certificates`: whom to trust there, None for the usual."""
        self._appearance = appearance
        self._window = window
        self._models = models
        self._background = Background("mlxr-about", post)
        self._asking = Background("mlxr-updates", post)  # a slow network keeps nobody else waiting
        self.updates = UpdateCheck(
            channel,
            MemoryFile(paths.updates),
            self._asking,
            lambda: chosen.values.check_updates == "on",
            certificates,
        )
        self.updates.found.connect(self._offer_update)
        self.updates.updated.connect(self._offer_news)
        settings.about_wanted.connect(self.show_about)
        settings.updates_chosen.connect(self.updates.look_if_due)
        window.add_help(self.actions())

    def start(self) -> None:
        """Ask for updates, where that is wanted, and tell of the one that happened."""
        self.updates.start()

    def close(self, seconds: float) -> None:
        """End the threads."""
        self.updates.stop()
        self._background.close(seconds)
        self._asking.close(min(seconds, UNANSWERED_SECONDS))

    def actions(self) -> list[QAction]:
        """What stands in a menu: macOS moves the first two under the app's name."""
        about = self._action(words.ABOUT, self.show_about, QAction.MenuRole.AboutRole)
        role = QAction.MenuRole.ApplicationSpecificRole
        check = self._action(f"{update_words.CHECK}…", self._check, role)
        news = self._action(update_words.WHATS_NEW, self.show_news, QAction.MenuRole.NoRole)
        licences = self._action(words.LICENCES, self.show_licences, QAction.MenuRole.NoRole)
        return [about, check, news, licences]

    def show_about(self) -> None:
        """Show About."""
        from app.about.about_dialog import AboutDialog

        runs = words.runs_words(self._models.state.info)
        dialog = AboutDialog(words.build_words(this_build()), runs, self.updates, self._window)
        dialog.news_wanted.connect(self.show_news)
        dialog.licences_wanted.connect(self.show_licences)
        _open(dialog)

    def show_news(self) -> None:
        """Show what is new: in the version that could be had, else in this one."""
        manifest = self.updates.state.manifest
        if manifest is not None and manifest.is_newer_than(VERSION):
            self._show_text(words.notes_text(manifest.notes_since(VERSION)))
            return
        try:
            self._show_text(words.news(bundled(), VERSION))
        except (OSError, ValueError) as error:
            self._show_text(words.UNREADABLE.format(error=error))

    def show_licences(self) -> None:
        """Show the licences of all parts."""
        from app.about.licences_dialog import LicencesDialog

        _open(LicencesDialog(self._appearance, self._background, self._window))

    def _show_text(self, markdown: str) -> None:
        from app.about.text_dialog import TextDialog

        _open(TextDialog(self._appearance, update_words.WHATS_NEW, markdown, self._window))

    def _check(self) -> None:
        self.updates.look()
        self.show_about()

    def _offer_update(self, manifest: Manifest) -> None:
        line = update_words.AVAILABLE.format(name=APP_NAME, version=manifest.version)
        self._window.toast.offer(line, update_words.LOOK, self.show_about)

    def _offer_news(self) -> None:
        line = update_words.UPDATED.format(name=APP_NAME, version=VERSION)
        self._window.toast.offer(line, update_words.WHATS_NEW, self.show_news)

    def _action(self, title: str, then: Callable[[], object], role: QAction.MenuRole) -> QAction:
        action = QAction(title, self._window)
        action.setMenuRole(role)
        action.triggered.connect(lambda: then())
        return action


def _open(dialog: QDialog) -> None:
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
