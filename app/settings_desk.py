"""Where the settings meet those whom they concern: the look, the engine and the downloads while they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app import text
from app.appearance import Appearance
from app.chat.disk_use import DiskUseViewModel
from app.chosen_settings import ChosenSettings
from app.downloads.lanes import Lanes
from app.engine_settings import told_at_start, unload_seconds
from app.paths import Paths
from app.settings import FilesAtOnce, KvCache, Switch, Theme, UnloadAfter
from app.widgets.settings_dialog import SettingsDialog
from app.widgets.toast import Toast
from engine import Command, LetRest


class SettingsDesk(QObject):
    """Shows the dialog, and carries out what is chosen in it.

    Signals: `about_wanted`; `restart_wanted`, so that what is chosen holds; and `updates_chosen` when it was
    chosen whether to look for them.
    """

    about_wanted = Signal()
    restart_wanted = Signal()
    updates_chosen = Signal()

    def __init__(
        self,
        chosen: ChosenSettings,
        appearance: Appearance,
        lanes: Lanes,
        submit: Callable[[Command], None],
        toast: Toast,
        paths: Paths,
        parent: QObject | None = None,
    ) -> None:
        """`lanes` are those of the downloads; `submit` queues a command for the engine.

        `toast`: where it is said that something holds from the next start on.
        """
        super().__init__(parent)
        self._toast = toast
        self._paths = paths
        self._begun_with = told_at_start(paths, chosen.values)
        self._chosen = chosen
        self._appearance = appearance
        self._lanes = lanes
        self._submit = submit

    def show_dialog(self, disk_use: DiskUseViewModel, window: QWidget) -> None:
        """Show the settings over `window`."""
        dialog = SettingsDialog(self._appearance, self._chosen.values, str(self._paths.home), window)
        dialog.theme_chosen.connect(self._choose_theme)
        dialog.cache.disk_cache_chosen.connect(lambda choice: self._keep(ssd_cache=choice))
        dialog.cache.ssd_cap_chosen.connect(lambda choice: self._keep(ssd_cap=choice))
        dialog.cache.kv_memory_chosen.connect(lambda choice: self._keep(kv_memory=choice))
        dialog.guesses.chosen.connect(lambda choice: self._keep(speculation=choice))
        dialog.cache.kv_cache_chosen.connect(lambda choice: self._keep(kv_cache=choice))
        dialog.model.chosen.connect(self._choose_unload_after)
        dialog.downloads.chosen.connect(self._choose_files_at_once)
        dialog.updates.chosen.connect(self._choose_updates)
        dialog.about_wanted.connect(self.about_wanted)
        dialog.show_disk_use(disk_use.words)
        disk_use.changed.connect(dialog.show_disk_use)
        dialog.finished.connect(partial(self._offer_to_start_again, text.NEXT_START))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def choose_kv_cache(self, choice: KvCache) -> None:
        """Let what chats compute be kept in so many bits, from the next start on, and offer that."""
        self._keep(kv_cache=choice)
        self._offer_to_start_again(text.QUANTISED.format(amount=choice))

    def _offer_to_start_again(self, words: str, *_: object) -> None:
        """Where the engine runs with other settings than are chosen now."""
        if told_at_start(self._paths, self._chosen.values) != self._begun_with:
            self._toast.offer(words, text.START_AGAIN, self.restart_wanted.emit)

    def _choose_theme(self, choice: Theme) -> None:
        self._appearance.choose(choice)
        self._keep(theme=choice)

    def _choose_unload_after(self, choice: UnloadAfter) -> None:
        self._submit(LetRest(unload_seconds(choice)))
        self._keep(unload_after=choice)

    def _choose_files_at_once(self, choice: FilesAtOnce) -> None:
        self._lanes.set_count(int(choice))
        self._keep(files_at_once=choice)

    def _choose_updates(self, choice: Switch) -> None:
        self._keep(check_updates=choice)
        self.updates_chosen.emit()

    def _keep(self, **values: Any) -> None:
        self._chosen.change(lambda settings: replace(settings, **values))
