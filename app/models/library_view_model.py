"""The models on this machine, as the library's thread tells them, and what a person does with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Signal

from app.downloads.journal import waiting_repos
from app.engine_settings import fit_settings
from app.library.drafts import draft_of
from app.library.importing import Imported, checked_place, take_in
from app.library.library import Library, open_library
from app.library.look import look
from app.library.records import LeftOut, LibraryError, Model
from app.models.background import Background
from app.models.own_settings import OwnSettings
from app.paths import Paths
from engine import EngineSettings, Fit, machine_report, model_fit

if TYPE_CHECKING:
    from app.library.removal import Removal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shelf:
    """What the library holds.

    Attributes:
        models: favourites first, then by name.
        fits: how each that runs here goes into the memory, by its key.
        left_out: what looks like a model and is none.
        memory: bytes that models may use here.
    """

    models: tuple[Model, ...] = ()
    fits: Mapping[str, Fit] = field(default_factory=dict[str, Fit])
    left_out: tuple[LeftOut, ...] = ()
    memory: int = 0


class LibraryViewModel(QObject):
    """Holds the shelf; everything else happens on the library's thread.

    Signals: `changed` when the shelf is another one, `scanning(done, total)` while headers are read and
    `scanned` behind it, `failed(words)`, `chosen(Model)` with what is set for it by now,
    `removal_planned(Removal)`, `removed(Removal, bytes freed)`, and `taken_in(tuple of Models)`.
    """

    changed = Signal()
    scanning = Signal(int, int)
    scanned = Signal()
    failed = Signal(str)
    chosen = Signal(object)
    removal_planned = Signal(object)
    removed = Signal(object, object)
    taken_in = Signal(object)

    def __init__(
        self, paths: Paths, background: Background, own: OwnSettings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._paths = paths
        self._own = own
        self._background = background
        self._shelf = Shelf()
        self._notes: tuple[str, ...] = ()
        self._is_scanning = False
        self._scan_again = False
        self._is_ending = False

    @property
    def shelf(self) -> Shelf:
        """What the library holds, as far as it is known."""
        return self._shelf

    @property
    def is_scanning(self) -> bool:
        """Whether all places are being looked through."""
        return self._is_scanning

    def find(self, key: str) -> Model | None:
        """The model of that key."""
        return next((model for model in self._shelf.models if model.key == key), None)

    def find_at(self, path: str, then: Callable[[Model | None], None]) -> None:
        """Find the model at `path`, behind what was asked before; None where the library knows none."""
        self._ask(lambda library: library.model_at(Path(path)), then)

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know of the last look through all places, a line each."""
        return self._notes

    def scan(self, *, again: bool = False) -> None:
        """Show what is known, then look through all places; `again` reads every header anew."""
        if self._is_scanning:
            self._scan_again = True  # what came meanwhile may lie where this one has looked already
            return
        self._is_scanning = True
        self.scanning.emit(0, 0)
        self._ask(lambda library: None, lambda _: None)

        def on_progress(done: int, total: int) -> None:
            if self._is_ending:
                raise LibraryError("MLXR ends; the next look goes on from here")
            self._tell_scan(done, total)

        def look_through(library: Library) -> tuple[str, ...]:
            return library.refresh(look, on_progress, again=again)

        def done(notes: tuple[str, ...]) -> None:
            self._notes = notes
            self._end_scan()

        self._ask(look_through, done, self._end_scan)

    def stop(self) -> None:
        """End a look through all places before the next model: what was asked behind it is done then."""
        self._is_ending = True

    def rename(self, model: Model, name: str) -> None:
        """Give the model another name."""
        if name.strip() != model.name:
            self._change(lambda library: library.rename(model, name))

    def set_favourite(self, model: Model, favourite: bool) -> None:
        """Let it stand in front, or no more."""
        self._change(lambda library: library.set_favourite(model, favourite))

    def save_settings(self, model: Model, changes: Mapping[str, object]) -> None:
        """Keep what of ModelSettings is set for the model alone, beside what is set by now: `chosen`.

        What cannot be kept holds all the same, until the model is opened again.
        """

        def change(library: Library) -> None:
            library.save_settings(model, replace(library.settings_at(model.path), **changes))

        def failed() -> None:
            self.chosen.emit(replace(model, settings=replace(model.settings, **changes)))

        def done() -> None:
            if found := self.find(model.key):
                self.chosen.emit(found)

        self._change(change, done, failed)

    def plan_removal(self, model: Model, *, files: bool) -> None:
        """Find out what removing it would free: `removal_planned`. Nothing is changed."""

        def plan(library: Library) -> Removal:
            # Imported here, off the GUI thread: the Hub's client that it needs takes a third of a second.
            from app.library.removal import plan_removal

            return plan_removal(model, library.models(), files=files)

        self._ask(plan, self.removal_planned.emit)

    def plan_leftover_removal(self, left: LeftOut) -> None:
        """The same of what lies in the Hugging Face cache and is no model: `removal_planned`."""

        def plan(library: Library) -> Removal:
            from app.library.removal import plan_leftover

            return plan_leftover(left, library.models(), waiting_repos(self._paths.downloads))

        self._ask(plan, self.removal_planned.emit)

    def remove(self, removal: Removal) -> None:
        """Delete or forget it as planned: `removed`."""

        def carry_out(library: Library) -> int:
            from app.library.removal import carry_out

            return carry_out(removal, library)

        self._ask(carry_out, lambda freed: self.removed.emit(removal, freed))

    def take_in(self, path: str) -> None:
        """List the models in a folder, or a GGUF file, from now on where they lie: `taken_in`."""

        def take_in_now(library: Library) -> Imported:
            return take_in(library, checked_place(path), look, self._tell_scan)

        def done(imported: Imported) -> None:
            self._notes = imported.notes
            self._end_scan()
            self.taken_in.emit(imported.models)

        self._is_scanning = True
        self._ask(take_in_now, done, self._end_scan)

    def _change(
        self,
        change: Callable[[Library], object],
        done: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a change that a person makes of a model: it holds at once, also during a scan."""

        def take(models: tuple[Model, ...]) -> None:
            self._shelf = replace(self._shelf, models=models)
            self.changed.emit()
            done()
            self._ask(lambda library: None, lambda _: None)  # whether a model fits may hang on it

        def tell(words: str) -> None:
            failed()
            self.failed.emit(words)

        self._own.change(change, take, tell)

    def _tell_scan(self, done: int, total: int) -> None:
        self._background.tell(lambda: self.scanning.emit(done, total))

    def _end_scan(self) -> None:
        self._is_scanning = False
        self.scanned.emit()
        if self._scan_again:
            self._scan_again = False
            self.scan()

    def _ask(
        self,
        work: Callable[[Library], T],
        then: Callable[[T], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Do `work`, take the shelf as it is then, and go on with `then`, or with `failed`."""

        def job() -> tuple[T, Shelf]:
            problems: list[str] = []
            with open_library(self._paths, problems.append) as library:
                answer = work(library), _shelf(library, fit_settings(self._paths))
            for problem in problems:
                self._background.tell(lambda problem=problem: self.failed.emit(problem))
            return answer

        def show(answer: tuple[T, Shelf]) -> None:
            result, self._shelf = answer
            then(result)
            self.changed.emit()

        def tell(words: str) -> None:
            failed()
            self.failed.emit(words)

        self._background.ask(job, show, tell)


def _shelf(library: Library, settings: EngineSettings) -> Shelf:
    models, memory = tuple(library.models()), machine_report().memory_bytes
    fits = {
        model.key: model_fit(model, memory, settings=settings, draft=draft_of(model, models))
        for model in models
        if model.is_runnable
    }
    return Shelf(models, fits, tuple(library.left_out()), memory)
