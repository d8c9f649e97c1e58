"""Whether the Hub has a newer commit of a model that came from it; asked only when a person asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from PySide6.QtCore import QObject, Signal

from app.hub.client import HubClient
from app.hub.details import RepoDetails, read_details
from app.library.records import Model
from app.library.updates import can_be_newer, wanted_again
from app.models.background import Background
from app.models.downloads_view_model import DownloadsViewModel

UP_TO_DATE = "{name} is up to date"
GONE = "{repo} has no {name} any more; look for another version of it"
NONE = "None of your models came from the Hub"
ONE = "There is an update of one model"
SOME = "There are updates of {count} models"
ALL_NEW = "All models are up to date"
NEWER = "There is a newer {name}"


class UpdatesViewModel(QObject):
    """Signals: `changed` when more is known, `said(words)` what an answer was, and `failed(words)`."""

    changed = Signal()
    said = Signal(str)
    failed = Signal(str)

    def __init__(
        self,
        background: Background,
        client: Callable[[], HubClient],
        downloads: DownloadsViewModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._background = background
        self._client = client
        self._downloads = downloads
        self._newer: dict[str, RepoDetails] = {}

    def newer(self, models: Sequence[Model]) -> Set[str]:
        """Keys of those of the models that the Hub had a newer commit of, when it was asked."""
        return {
            model.key
            for model in models
            if model.key in self._newer and self._newer[model.key].is_newer_than(model.revision)
        }

    def look(self, model: Model) -> None:
        """Ask the Hub about a model that came from there."""

        def know(details: RepoDetails) -> None:
            self._newer[model.key] = details
            words = NEWER if details.is_newer_than(model.revision) else UP_TO_DATE
            self.said.emit(words.format(name=model.name))
            self.changed.emit()

        self._background.ask(lambda: read_details(self._client(), model.origin), know, self.failed.emit)

    def look_at_all(self, models: Sequence[Model]) -> None:
        """Ask the Hub about all of those that came from there, a request for each repository."""
        asked = {model.origin for model in models if can_be_newer(model)}
        if not asked:
            self.said.emit(NONE)
            return

        def work() -> dict[str, RepoDetails]:
            return {origin: read_details(self._client(), origin) for origin in sorted(asked)}

        def know(found: dict[str, RepoDetails]) -> None:
            here = [model for model in models if can_be_newer(model)]
            self._newer |= {model.key: found[model.origin] for model in here}
            count = len(self.newer(here))
            self.said.emit(ONE if count == 1 else SOME.format(count=count) if count else ALL_NEW)
            self.changed.emit()

        self._background.ask(work, know, self.failed.emit)

    def update(self, model: Model) -> None:
        """Download what is newer; files that did not change are not fetched again."""
        details = self._newer[model.key]
        wanted = wanted_again(model, details)
        if wanted is None:
            self.failed.emit(GONE.format(name=model.name, repo=details.repo))
        else:
            self._downloads.add(*wanted)
