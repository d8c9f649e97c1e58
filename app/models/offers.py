"""What of a repository can be downloaded or opened, gathered from the Hub, the library, and the downloads."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.hub.choice import Choice
from app.hub.choices import recommend
from app.hub.details import RepoDetails
from app.hub.fit import USUAL_CONTEXT, ChoiceFit, fit_by_shape, fit_by_size, known_elements
from app.library.library import real_place
from app.library.records import Model
from app.library.updates import is_choice
from app.models.choice_card import Offer
from app.models.downloads_view_model import DownloadsViewModel
from app.models.library_view_model import LibraryViewModel
from app.models.models_view_model import ModelsViewModel
from app.models.repo_view_model import RepoViewModel
from engine import EngineSettings


class OffersViewModel(QObject):
    """The versions of the repository that is looked at. Signal: `changed`."""

    changed = Signal()

    def __init__(
        self,
        repo: RepoViewModel,
        library: LibraryViewModel,
        downloads: DownloadsViewModel,
        models: ModelsViewModel,
        settings: EngineSettings,
        parent: QObject | None = None,
    ) -> None:
        """`settings`: the engine's; the bits of its KV cache count for what fits."""
        super().__init__(parent)
        self._repo = repo
        self._library = library
        self._downloads = downloads
        self._models = models
        self._settings = settings
        self._context: int | None = USUAL_CONTEXT
        self._fits: dict[str, ChoiceFit] = {}
        self._offers: tuple[Offer, ...] = ()
        self._places: dict[str, str] = {}
        for signal in (repo.changed, library.changed):
            signal.connect(self._judge)
        for signal in (downloads.changed, models.states_changed):
            signal.connect(self._gather)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The versions, smallest first."""
        return self._offers

    def set_context(self, tokens: int | None) -> None:
        """Judge what fits for chats of so many tokens; None: as many as the model can take."""
        self._context = tokens
        self._judge()

    @Slot(str)
    def download(self, key: str) -> None:
        """Download one of them."""
        details = self._repo.details
        if details is not None:
            self._downloads.add(details.repo, key if len(details.choices.choices) > 1 else "")

    @Slot()
    def _judge(self) -> None:
        """Find out what fits, then gather."""
        details, memory = self._repo.details, self._library.shelf.memory
        choices = details.choices.choices if details and memory else ()
        self._fits = {choice.key: self._fit(choice, memory) for choice in choices}
        self._gather()

    def _fit(self, choice: Choice, memory: int) -> ChoiceFit:
        shape, details = self._repo.shapes.get(choice.format), self._repo.details
        if shape is None or details is None:
            return fit_by_size(choice, memory, context=self._context)
        return fit_by_shape(
            choice,
            shape,
            memory,
            context=self._context,
            settings=self._settings,
            elements=known_elements(details, choice),
        )

    @Slot()
    def _gather(self) -> None:
        details = self._repo.details
        offers = self._all_of(details) if details else ()
        if offers != self._offers:
            self._offers = offers
            self.changed.emit()

    def _all_of(self, details: RepoDetails) -> tuple[Offer, ...]:
        choices, memory = details.choices.choices, self._library.shelf.memory
        best = recommend(filter(self._fits_here, choices), memory) if memory else None
        states = self._models.states
        # Asking the disk for each bit of progress would be too much.
        self._places = {path: self._places.get(path) or str(real_place(Path(path))) for path in states}
        loaded = {self._places[path] for path, state in states.items() if state.phase == "ready"}
        return tuple(self._offer(details, choice, loaded, is_best=choice is best) for choice in choices)

    def _fits_here(self, choice: Choice) -> bool:
        return choice.key not in self._fits or self._fits[choice.key].verdict in ("fits", "tight")

    def _offer(self, details: RepoDetails, choice: Choice, loaded: Set[str], *, is_best: bool) -> Offer:
        model = self._here(details.repo, choice)
        access = self._repo.access
        return Offer(
            choice,
            is_best=is_best,
            fit=self._fits.get(choice.key),
            path=str(model.path) if model else "",
            progress=self._progress(details, choice),
            is_open=model is not None and str(model.path) in loaded,
            may_download=access is not None and access.gate in ("open", "granted"),
        )

    def _here(self, repo: str, choice: Choice) -> Model | None:
        """The model of the library that this choice is, whatever its commit."""
        for model in self._library.shelf.models:
            is_of_repo = model.source == "hugging face" and model.origin == repo
            if is_of_repo and model.is_runnable and is_choice(model, choice):
                return model
        return None

    def _progress(self, details: RepoDetails, choice: Choice) -> str:
        is_only = len(details.choices.choices) == 1
        for state in self._downloads.states:
            wanted = state.choice or state.wanted.quant
            is_this = wanted == choice.key or (not wanted and is_only)
            if state.wanted.repo == details.repo and is_this and state.phase != "finished":
                return f"{state.done / state.total:.0%}" if state.total else "Waiting"
        return ""
