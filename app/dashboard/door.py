"""The way to the dashboard: the page is made when somebody looks; what it tells is kept from the start."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.appearance import Appearance
from app.chat.chat_list import ChatListViewModel
from app.chat.pins import PinsViewModel
from app.dashboard.cache_view_model import CacheViewModel
from app.dashboard.dashboard_page import DashboardPage
from app.dashboard.live_pane import LivePane
from app.dashboard.live_view_model import LiveViewModel
from app.models.models_view_model import ModelState, ModelsViewModel
from app.window import MainWindow
from engine import Command, Event


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
    ) -> None:
        """`model_of`: the model that answers a request in flight; "" for what is none."""
        super().__init__()
        self._appearance, self._window = appearance, window
        self._models, self._chats, self._pins = models, chats, pins
        self._open_chat = open_chat
        self.live = LiveViewModel(submit, model_of)
        self.cache = CacheViewModel(submit)
        self._page: DashboardPage | None = None
        models.state_changed.connect(self._show_model)

    @property
    def page(self) -> DashboardPage:
        """The page, made on the first call."""
        if self._page is None:
            self._page = DashboardPage(
                self._appearance, {"Live": self._live_pane(), "Cache": self._cache_pane()}
            )
            self._page.left.connect(self._window.show_chat)
            self._show_model(self._models.state)
        return self._page

    def toggle(self) -> None:
        """Show the dashboard, or go back to the chats from there."""
        if self._window.is_shown(self.page):
            self._window.show_chat()
        else:
            self._window.show_page(self.page)
            self.page.setFocus()

    def handle(self, event: Event) -> None:
        """Take in an engine event; to be called before who answers requests forgets those that end."""
        self.live.handle(event)
        self.cache.handle(event)

    def flush(self) -> None:
        """Tell the views what has changed."""
        self.live.flush()
        self.cache.flush()

    def _live_pane(self) -> LivePane:
        return LivePane(self._appearance, self.live, self._chats.title_of)

    def _cache_pane(self) -> QWidget:
        # Imported here: it draws with numpy, which nobody needs before the first look.
        from app.dashboard.cache_pane import CachePane

        pane = CachePane(self._appearance, self.cache, self._pins, self._chats.title_of)
        pane.chat_chosen.connect(self._go_to)
        return pane

    def _go_to(self, chat: str) -> None:
        self._open_chat(chat)
        self._window.show_chat()

    def _show_model(self, state: ModelState) -> None:
        self.live.show(state.path)
        self.cache.show(state.path)
        if self._page is not None:
            self._page.show_model(self._models.name_of(state.path) if state.path else "")
