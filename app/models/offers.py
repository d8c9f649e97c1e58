"""What of a repository can be downloaded or opened, gathered from the Hub, the library, and the downloads."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from PySide6.QtCore import QObject, Signal, Slot

from app.hub.choice import Choice
from app.hub.choices import recommend
from app.library.library import real_place
from app.library.records import Model
from app.models.choice_card import Offer
from app.models.downloads_view_model import DownloadsViewModel
from app.models.library_view_model import LibraryViewModel
from app.models.models_view_model import ModelsViewModel
from app.models.repo_view_model import RepoViewModel


class OffersViewModel(QObject):
    """The versions of the repository that is looked at. Signal: `changed`."""

    changed = Signal()

    def __init__(
        self,
        repo: RepoViewModel,
        library: LibraryViewModel,
        downloads: DownloadsViewModel,
        models: ModelsViewModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._repo = repo
        self._library = library
        self._downloads = downloads
        self._models = models
        self._offers: tuple[Offer, ...] = ()
        for signal in (repo.changed, library.changed, downloads.changed, models.state_changed):
            signal.connect(self._gather)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The versions, smallest first."""
        return self._offers

    @Slot(str)
    def download(self, key: str) -> None:
        """Download one of them."""
        if self._repo.details is not None:
            self._downloads.add(self._repo.details.repo, key)

    @Slot()
    def _gather(self) -> None:
        details = self._repo.details
        choices = details.choices.choices if details else ()
        best = recommend(choices, self._library.shelf.memory) if self._library.shelf.memory else None
        state = self._models.state
        loaded = str(real_place(Path(state.path))) if state.phase == "ready" else ""
        offers = tuple(self._offer(choice, loaded, is_best=choice is best) for choice in choices)
        if offers != self._offers:
            self._offers = offers
            self.changed.emit()

    def _offer(self, choice: Choice, loaded: str, *, is_best: bool) -> Offer:
        model = self._here(choice)
        access = self._repo.access
        return Offer(
            choice,
            is_best=is_best,
            path=str(model.path) if model else "",
            progress=self._progress(choice),
            is_open=model is not None and str(model.path) == loaded,
            may_download=access is not None and access.gate in ("open", "granted"),
        )

    def _here(self, choice: Choice) -> Model | None:
        """The model of the library that this choice is, whatever its commit."""
        name = PurePosixPath(choice.files[0].name).name
        for model in self._library.shelf.models:
            if model.source == "hugging face" and model.origin == self._repo.repo and model.is_runnable:
                is_file = model.path.suffix.lower() == ".gguf"
                if model.path.name == name if is_file else choice.format == "safetensors":
                    return model
        return None

    def _progress(self, choice: Choice) -> str:
        for state in self._downloads.states:
            is_this = choice.key in (state.choice, state.wanted.quant)
            if state.wanted.repo == self._repo.repo and is_this and state.phase != "finished":
                return f"{state.done / state.total:.0%}" if state.total else "Waiting"
        return ""
