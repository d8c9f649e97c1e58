"""The way to the dashboard: its page is made when somebody looks; what it tells is kept from the start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Slot

from app.appearance import Appearance
from app.chat.chat_list import ChatListViewModel
from app.chat.pins import PinsViewModel
from app.dashboard.cache_view_model import CacheViewModel
from app.dashboard.live_view_model import LiveViewModel
from app.first_run.trials_view_model import TrialsViewModel
from app.models.background import Background, Post
from app.models.known_model import ModelState
from app.models.models_view_model import ModelsViewModel
from app.onlookers import Onlookers
from app.paths import Paths
from app.window import MainWindow
from engine import Command, Event

if TYPE_CHECKING:
    from app.dashboard.desk import DashboardDesk

log = logging.getLogger(__name__)

TURN_MS = 1
"""From a part of the page to the next: what waited meanwhile comes first."""

_MADE = object()


class DashboardDoor(QObject):
    """Takes in engine events, and shows the page."""

    def __init__(
        self,
        appearance: Appearance,
        window: MainWindow,
        submit: Callable[[Command], None],
        model_of: Callable[[str], str],
        models: ModelsViewModel,
        chats: ChatListViewModel,
        pins: PinsViewModel,
        open_chat: Callable[[str], None],
        onlookers: Onlookers,
        trials: TrialsViewModel,
        rest_after: Callable[[], float | None],
        paths: Paths,
        post: Post,
    ) -> None:
        """`model_of`: the model that answers a request in flight; "" for what is none.

        `rest_after`: seconds without a request until a model may leave memory, as it is set.
        """
        super().__init__()
        self._appearance, self._window = appearance, window
        self._models, self._chats, self._pins = models, chats, pins
        self._open_chat, self._onlookers, self._paths = open_chat, onlookers, paths
        self._submit, self._rest_after, self._trials = submit, rest_after, trials
        self._background = Background("mlxr-dashboard", post)
        self.live = LiveViewModel(submit, model_of)
        self.cache = CacheViewModel(submit)
        self._desk: DashboardDesk | None = None
        self._is_wanted = False
        self._maker = QTimer(self)
        self._maker.setSingleShot(True)  # started anew: one that repeats may run twice in a turn of the loop
        self._maker.setInterval(TURN_MS)
        models.state_changed.connect(self._show_model)

    @property
    def desk(self) -> DashboardDesk | None:
        """What is behind the page; None before it was needed."""
        return self._desk

    def toggle(self) -> None:
        """Show the dashboard, or go back to the chats from there."""
        if self._desk is None:
            self._make()
        elif self._window.is_shown(self._desk.page):
            self._window.show_chat()
        else:
            self._window.show_page(self._desk.page)
            self._desk.page.setFocus()

    def handle(self, event: Event) -> None:
        """Take in an engine event; to be called before who answers requests forgets those that end."""
        self.live.handle(event)
        self.cache.handle(event)
        if self._desk is not None:
            self._desk.history.handle(event)
            self._desk.kernels.handle(event)

    def flush(self) -> None:
        """Tell the views what has changed."""
        self.live.flush()
        self.cache.flush()

    def close(self, seconds: float) -> None:
        """End what runs in the background; what was chosen for a model is set first."""
        self._maker.stop()
        if self._desk is not None:
            self._desk.kernels.stop_check()
            self._desk.logs.close()
            self._desk.bench.close()
            if not self._desk.contexts.close(seconds):
                log.warning("what was chosen in the dashboard was not set in time")
        self._background.end()

    def _make(self) -> None:
        def work() -> type[DashboardDesk]:
            # Imported here, off the GUI thread: it takes more than a frame.
            from app.dashboard.desk import DashboardDesk

            return DashboardDesk

        if not self._is_wanted:
            self._is_wanted = True
            self._background.ask(work, self._make_in_parts, self._window.toast.say)

    def _make_in_parts(self, make: type[DashboardDesk]) -> None:
        desk = make(
            self._appearance,
            self.live,
            self.cache,
            self._pins,
            self._chats.title_of,
            self._models,
            self._submit,
            self._rest_after,
            self._onlookers,
            self._trials,
            self._background,
            self._paths,
        )
        self._desk = desk
        desk.left.connect(self._window.show_chat)
        desk.chat_chosen.connect(self._go_to)
        parts = desk.parts()

        def make_a_part() -> None:
            if next(parts, _MADE) is not _MADE:
                self._maker.start()

        self._maker.timeout.connect(make_a_part)
        self._maker.start()
        self._show_model(self._models.state)
        self.toggle()

    @Slot(str)
    def _go_to(self, chat: str) -> None:
        self._open_chat(chat)
        self._window.show_chat()

    @Slot(object)
    def _show_model(self, state: ModelState) -> None:
        self.live.show(state.path)
        self.cache.show(state.path)
        if self._desk is not None:
            self._desk.page.show_model(self._models.name_of(state.path) if state.path else "")
