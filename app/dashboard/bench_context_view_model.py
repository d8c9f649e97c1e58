"""The longest contexts that fit with the model on show, and the wish to have one of them."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.dashboard.bench_context import SafeContext, apply_context, safe_contexts
from app.engine_settings import fit_settings
from app.library.lookup import own_at
from app.library.records import NOTHING_SET, ModelSettings
from app.models.background import Background
from app.models.models_view_model import ModelsViewModel
from app.paths import Paths


class ContextViewModel(QObject):
    """`changed` when `choices` or `own` are others; `failed(words)`.

    Attributes:
        model: path of the model that is told of; "" before there is one.
        choices: what fits, the KV cache in full first.
        own: what is set for it alone.
    """

    changed = Signal()
    failed = Signal(str)

    def __init__(
        self, background: Background, models: ModelsViewModel, paths: Paths, parent: QObject | None = None
    ) -> None:
        """`background`: where headers and the library are read."""
        super().__init__(parent)
        self._background, self._models, self._paths = background, models, paths
        self.model = ""
        self.choices: tuple[SafeContext, ...] = ()
        self.own = NOTHING_SET
        self._is_watched = False
        models.state_changed.connect(self._look_again)

    @property
    def name(self) -> str:
        """The model's, for people."""
        return self._models.name_of(self.model) if self.model else ""

    def is_used(self, choice: SafeContext) -> bool:
        """Whether it is what is set."""
        return (self.own.context, self.own.kv_cache) == (choice.tokens, choice.kv_cache)

    def look(self, is_watched: bool) -> None:
        """Somebody looks, or no longer."""
        self._is_watched, self.model = is_watched, ""  # the models page may have set something since
        self._look_again()

    def apply(self, choice: SafeContext) -> None:
        """Set it for the model, and open that again."""
        path, name = self.model, self.name

        def done(own: ModelSettings) -> None:
            if path == self.model:
                self.own = own
            if path in self._models.states and self._models.take_own(path, own):
                self._models.open(path)
            self.changed.emit()

        self._background.ask(
            lambda: apply_context(Path(path), name, choice, self._paths), done, self.failed.emit
        )

    def close(self, seconds: float) -> bool:
        """Ask for nothing any more; what was chosen is set first. Returns whether that was done in time."""
        return self._background.close(seconds)

    @Slot()
    def _look_again(self) -> None:
        path = self._models.state.path
        if not self._is_watched or not path:
            return

        def work() -> tuple[tuple[SafeContext, ...], ModelSettings]:
            own = own_at(Path(path), self._paths)
            return safe_contexts(Path(path), fit_settings(self._paths), draft=own.draft), own.settings

        def take(found: tuple[tuple[SafeContext, ...], ModelSettings]) -> None:
            if path == self._models.state.path:
                self.model, (self.choices, self.own) = path, found
                self.changed.emit()

        def fail(words: str) -> None:
            self.model, self.choices = path, ()
            self.changed.emit()
            self.failed.emit(words)

        if path != self.model:
            self._background.ask(work, take, fail)
