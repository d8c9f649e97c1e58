"""The way to the models page: what is behind it is made when it is first needed, not at the start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app import text
from app.appearance import Appearance
from app.downloads.lanes import Lanes
from app.library.records import LibraryError
from app.models.background import Background, Post
from app.models.models_view_model import ModelsViewModel
from app.models.own_settings import OwnSettings
from app.paths import Paths
from app.widgets.toast import Toast
from app.window import MainWindow
from engine import EngineSettings

if TYPE_CHECKING:
    from app.models.downloads_view_model import DownloadState
    from app.models_desk import ModelsDesk

log = logging.getLogger(__name__)


class ModelsDoor:
    """Shows the page, goes on with downloads, and lists models that are opened, and when they were."""

    def __init__(
        self,
        appearance: Appearance,
        models: ModelsViewModel,
        window: MainWindow,
        paths: Paths,
        post: Post,
        settings: EngineSettings,
        lanes: Lanes,
        own: OwnSettings,
    ) -> None:
        self._appearance = appearance
        self._models = models
        self._window = window
        self._paths = paths
        self._post = post
        self._settings = settings
        self._lanes = lanes
        self._own = own
        self._library = Background("mlxr-library", post)
        self._desk: ModelsDesk | None = None
        self._is_ending = False
        models.opened.connect(self._note_use)
        models.made_room.connect(self._say_made_room)

    @property
    def desk(self) -> ModelsDesk | None:
        """What is behind the page; None before it was needed."""
        return self._desk

    def toggle(self) -> None:
        """Show the models page, or go back to the chats from there."""
        if self._desk is not None and self._window.is_shown(self._desk.page):
            self._window.show_chat()
        else:
            self._with_desk(self._show)

    def _show(self, desk: ModelsDesk) -> None:
        desk.prepare_page(partial(self._show_page, desk))

    def _show_page(self, desk: ModelsDesk) -> None:
        self._window.show_page(desk.page)
        desk.page.show_tab(desk.page.tab)  # the cursor belongs into its field
        desk.library.scan()  # files may have come and gone

    def show_repo(self, repo: str) -> None:
        """Show the page of a repository on the Hub, for a link: nothing of it is downloaded by that."""

        def show(desk: ModelsDesk) -> None:
            self._show_page(desk)
            desk.page.show_tab("discover")
            desk.page.discover.look_at(repo)

        self._with_desk(lambda desk: desk.prepare_page(partial(show, desk)))

    def discover(self) -> None:
        """Show what models there are to be had, the short list that needs no network first."""

        def show(desk: ModelsDesk) -> None:
            self._show_page(desk)
            desk.page.show_tab("discover")

        self._with_desk(lambda desk: desk.prepare_page(partial(show, desk)))

    def show_context(self, path: str) -> None:
        """Show where the context of the model at `path` is set, for a way out of a refusal."""

        def show(desk: ModelsDesk) -> None:
            desk.show_context(path)  # found before places are looked through, as they are for the page
            self._show_page(desk)
            desk.page.show_tab("library")

        self._with_desk(lambda desk: desk.prepare_page(partial(show, desk)))

    def resume_downloads(self) -> None:
        """Go on with what was not finished when the app ended."""
        if self._paths.downloads.exists():
            self._with_desk(lambda desk: desk.downloads.resume_pending())

    def close(self, seconds: float) -> None:
        """End the threads; downloads go on with the next start."""
        self._is_ending = True
        if self._desk is not None and not self._desk.close(seconds):
            log.warning("the downloads, or what was asked of the keychain, did not end in time")
        if not self._library.close(seconds):
            log.warning("the library did not end in time")

    def _with_desk(self, then: Callable[[ModelsDesk], None]) -> None:
        if self._desk is not None:
            then(self._desk)  # at once: the library's thread may be looking through places
            return

        def work() -> type[ModelsDesk]:
            # Imported here, off the GUI thread: it takes more than a frame.
            from app.models_desk import ModelsDesk

            return ModelsDesk

        def go_on(make: type[ModelsDesk]) -> None:
            if self._desk is None:
                self._desk = make(
                    self._appearance,
                    self._models,
                    self._paths,
                    self._post,
                    self._library,
                    self._settings,
                    self._lanes,
                    self._own,
                )
                self._desk.left.connect(self._window.show_chat)
                self._desk.ready.connect(self._say_ready)
            then(self._desk)

        self._library.ask(work, go_on, self._window.toast.say)

    def _look_on(self, done: int, total: int) -> None:
        """On the library's thread, before each model that is looked at: nobody waits for that at the end."""
        if self._is_ending:
            raise LibraryError("MLXR ends; what was opened is listed when it is opened again")

    def _say_ready(self, state: DownloadState) -> None:
        words = text.READY.format(title=state.title)
        self._toast.offer(words, text.OPEN, partial(self._models.open, state.path))

    def _say_made_room(self, path: str) -> None:
        self._toast.say(text.MADE_ROOM.format(name=self._models.name_of(path)))

    @property
    def _toast(self) -> Toast:
        """The one that is seen where the person is."""
        on_page = self._desk is not None and not self._window.is_chat_shown
        return self._desk.page.toast if self._desk is not None and on_page else self._window.toast

    def _note_use(self, path: str) -> None:
        def work() -> str:
            # Imported here, off the GUI thread: it takes more than a frame.
            from app.library.importing import take_in_opened
            from app.library.look import look
            from app.library.lookup import note_use

            if path != self._models.guide:
                take_in_opened(Path(path), self._paths, look, self._look_on)
            return note_use(Path(path), self._paths)

        self._library.ask(work, _log_problem, _log_problem)


def _log_problem(problem: str) -> None:
    if problem:
        log.warning("%s", problem)
