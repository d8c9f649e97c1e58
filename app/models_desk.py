"""Where the objects behind the models page meet; made when they are first needed, not at the start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app import text
from app.amounts import size
from app.appearance import Appearance
from app.chat.chat_words import load_problem
from app.downloads.lanes import Lanes
from app.hub.client import HubClient
from app.hub.curated import curated_models
from app.hub.keychain import SystemKeychain
from app.hub.token import TokenStore
from app.library.records import Model
from app.models.background import Background, Post
from app.models.discover_pane import DiscoverPane
from app.models.downloads_strip import DownloadsStrip
from app.models.downloads_view_model import DownloadState, DownloadsViewModel, open_queue
from app.models.known_model import ModelState
from app.models.library_pane import LibraryPane
from app.models.library_view_model import LibraryViewModel
from app.models.model_words import short_list
from app.models.models_page import ModelsPage
from app.models.models_view_model import ModelsViewModel
from app.models.offers import OffersViewModel
from app.models.own_settings import OwnSettings
from app.models.repo_view_model import RepoViewModel
from app.models.search_view_model import SearchViewModel
from app.models.token_dialog import TokenDialog
from app.models.token_view_model import TokenViewModel
from app.models.updates_view_model import UpdatesViewModel
from app.paths import Paths
from engine import EngineSettings

if TYPE_CHECKING:
    from app.library.removal import Removal


log = logging.getLogger(__name__)

_MADE = object()


class ModelsDesk(QObject):
    """The library, the Hub and the downloads, and the page that shows them once somebody looks.

    Signals: `left` when the page is to give way to the chat; `ready(DownloadState)` when a download is.
    """

    left = Signal()
    ready = Signal(object)

    def __init__(
        self,
        appearance: Appearance,
        models: ModelsViewModel,
        paths: Paths,
        post: Post,
        background: Background,
        settings: EngineSettings,
        lanes: Lanes,
        own: OwnSettings,
    ) -> None:
        """`background` is where the library is read and written, but for `own`; `settings` are the engine's.

        `lanes` tell how many files are fetched at once.
        """
        super().__init__()
        self._appearance = appearance
        self._models = models
        names = ("downloads", "search", "repository", "updates", "token")
        downloads, searches, repos, updates, tokens = (Background(f"mlxr-{name}", post) for name in names)
        self._updates, self._tokens = updates, tokens
        store = TokenStore(SystemKeychain())
        self.token = TokenViewModel(tokens, store)
        self.library = LibraryViewModel(paths, background, own)
        self.downloads = DownloadsViewModel(paths, downloads, open_queue(store.get, lanes))
        self.search = SearchViewModel(searches, lambda: HubClient(store.get))
        self.repo = RepoViewModel(repos, lambda: HubClient(store.get))
        self.updates = UpdatesViewModel(updates, lambda: HubClient(store.get), self.downloads)
        self.offers = OffersViewModel(self.repo, self.library, self.downloads, models, settings)
        self._curated = curated_models()
        self._page: ModelsPage | None = None
        self._parts = self._make_page()
        self._gone: list[str] = []
        self._waiting: list[Callable[[], None]] = []
        self._maker = QTimer(self)
        self._maker.setInterval(0)
        self._maker.timeout.connect(self._make_a_part)
        self.downloads.finished.connect(self._take_in)
        self.downloads.failed.connect(log.warning)  # also where there is no page yet to say it on

    @property
    def page(self) -> ModelsPage:
        """The page; what is not there of it yet is made now."""
        for _ in self._parts:
            pass
        assert self._page is not None
        return self._page

    def prepare_page(self, then: Callable[[], None]) -> None:
        """Make the page, a part in each turn of the event loop, then call `then`."""
        self._waiting.append(then)
        self._maker.start()

    @Slot()
    def _make_a_part(self) -> None:
        if next(self._parts, _MADE) is _MADE:
            self._maker.stop()
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def show_context(self, path: str) -> None:
        """Open the settings of the model at `path`, with the cursor in its context."""

        def show(model: Model | None) -> None:
            if model is None:
                self.page.say_problem(text.NOT_LISTED.format(name=self._models.name_of(path)))
            else:
                self.page.library.show_settings(model, "context")

        self.library.find_at(path, show)

    def close(self, seconds: float) -> bool:
        """Stop the downloads; the next start goes on with them. A token is kept or forgotten first.

        Returns whether all ended in time.
        """
        self.library.stop()
        self.search.quit()
        self.repo.quit()
        self._updates.end()
        has_ended = self.downloads.close(seconds)
        return self._tokens.close(seconds) and has_ended

    def _make_page(self) -> Generator[None]:
        """Make the page in parts that take less than a frame each."""
        library = LibraryPane(self._appearance, self.library, self._models, self.updates)
        yield
        discover = DiscoverPane(self._appearance, self.search, self.repo, self.offers)
        yield
        downloads = DownloadsStrip(self._appearance, self.downloads)
        self._page = page = ModelsPage(self._appearance, library, discover, downloads)
        page.left.connect(self.left)
        page.library.outdated.connect(self._offer_to_open_again)
        self._show_short_list(page)
        self.library.changed.connect(lambda: self._show_short_list(page))
        page.opened.connect(self._models.open)
        page.token_wanted.connect(self._ask_for_token)
        self._models.state_changed.connect(self._tell_model)
        self._models.opened.connect(self._tell_opened)
        self._models.made_room.connect(self._gone.append)
        self.library.failed.connect(page.say_problem)
        self.downloads.failed.connect(page.say_problem)
        self.updates.failed.connect(page.say_problem)
        self.updates.said.connect(page.toast.say)
        page.dropped.connect(self.library.take_in)
        self.library.taken_in.connect(self._say_taken_in)
        self.library.removed.connect(self._say_removed)
        yield

    def _show_short_list(self, page: ModelsPage) -> None:
        """With what fits, as soon as the memory of this machine is known."""
        page.discover.show_short_list(short_list(self._curated, self.library.shelf.memory))

    @Slot()
    def _ask_for_token(self) -> None:
        dialog = TokenDialog(self.token, self.page)
        dialog.done_with.connect(self.page.toast.say)
        dialog.done_with.connect(self.repo.look_again)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    @Slot(object)
    def _tell_model(self, state: ModelState) -> None:
        """Say on the page how opening a model from it goes; the chat says it for itself."""
        if self.page.isHidden():
            return
        if problem := load_problem(state, self._models.is_guide):
            self.page.say_problem(problem)
        elif state.phase == "loading":
            self.page.banner.say("")

    @Slot(str)
    def _tell_opened(self, path: str) -> None:
        gone, self._gone = self._gone, []
        if self.page.isHidden():
            return
        words = text.LOADED.format(name=self._models.name_of(path))
        made_room = [text.MADE_ROOM.format(name=self._models.name_of(other)) for other in gone]
        self.page.toast.offer("; ".join((words, *made_room)), text.CHAT, self.left.emit)

    @Slot(object)
    def _offer_to_open_again(self, model: Model) -> None:
        words = text.OUTDATED.format(name=model.name)
        self.page.toast.offer(words, text.OPEN_AGAIN, partial(self._models.open, str(model.path)))

    @Slot(object)
    def _take_in(self, state: DownloadState) -> None:
        self.library.scan()
        self.ready.emit(state)

    @Slot(object)
    def _say_taken_in(self, models: tuple[Model, ...]) -> None:
        words = text.LISTED if len(models) == 1 else text.ALL_LISTED
        self.page.toast.say(words.format(name=models[0].name, count=len(models)))

    @Slot(object, object)
    def _say_removed(self, removal: Removal, freed: int) -> None:
        words = text.REMOVED if removal.deletes else text.FORGOTTEN
        if removal.model.state == "gone":
            words = text.GONE_FORGOTTEN
        self.page.toast.say(words.format(name=removal.model.name, size=size(freed)))
