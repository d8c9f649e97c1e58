"""Which models are loaded, as the engine's events tell it, which is chosen, and the wish for another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app import text
from app.chat_sampling import chat_sampling
from app.engine_settings import load_command
from app.library.records import NOTHING_SET, ModelSettings, Own
from app.model_location import model_title
from app.models.known_model import Known, ModelState, new_id
from engine import (
    Command,
    Event,
    Failed,
    LoadProgress,
    ModelReady,
    ModelUnloaded,
    SamplingParams,
    UnloadModel,
)

FindOwn = Callable[[str, Callable[[Own], None]], None]

RECENT = 8


class ModelsViewModel(QObject):
    """The models that the engine has, of which one is chosen, and those opened before.

    Signals: `state_changed(ModelState)` of the chosen one, also when another is chosen; `states_changed(state
    by path)`; `recent_changed(tuple of paths)`; `chosen(path)` when a person opens one; `opened(path)` when
    that one is ready; `made_room(path)` when one was unloaded for another.
    """

    state_changed = Signal(object)
    states_changed = Signal(object)
    recent_changed = Signal(object)
    chosen = Signal(str)
    opened = Signal(str)
    made_room = Signal(str)

    def __init__(
        self,
        submit: Callable[[Command], None],
        guide: Path,
        find_own: FindOwn = lambda path, then: then(Own()),
        parent: QObject | None = None,
    ) -> None:
        """`find_own` tells, now or later on this thread, what is set for a model alone."""
        super().__init__(parent)
        self._submit = submit
        self._find_own = find_own
        self._guide = str(guide)
        self._known: dict[str, Known] = {}  # by path, the last opened last
        self._path = ""
        self._recent: tuple[str, ...] = ()

    @property
    def state(self) -> ModelState:
        """The state of the chosen model."""
        known = self._known.get(self._path)
        return known.state if known else ModelState()

    @property
    def states(self) -> Mapping[str, ModelState]:
        """The state of each model that was opened and is not unloaded, by its path."""
        return {path: known.state for path, known in self._known.items()}

    @property
    def guide(self) -> str:
        """Folder of the built-in model."""
        return self._guide

    @property
    def is_guide(self) -> bool:
        """Whether the chosen model is the built-in one."""
        return self._path == self._guide

    def name_of(self, path: str) -> str:
        """The model's name for people."""
        return text.model_title(model_title(Path(path)), path == self._guide)

    @property
    def recent(self) -> tuple[str, ...]:
        """Models opened before, the last one first, without the guide."""
        return self._recent

    @property
    def takes_requests(self) -> bool:
        """Whether a request reaches the chosen model: it waits in the engine while that loads or rests."""
        known = self._known.get(self._path)
        return known is not None and known.takes_requests

    @property
    def system(self) -> str:
        """What the model is told before each new chat; "" is nothing."""
        known = self._known.get(self._path)
        return known.own.system if known else ""

    def sampling(self, answers: int = 1) -> SamplingParams:
        """How the chosen model's words are drawn for so many answers to one question."""
        known = self._known.get(self._path)
        return chat_sampling(Path(self._path), answers, known.own if known else NOTHING_SET)

    def open(self, path: str) -> None:
        """Choose the model. Unless it is in memory, or being loaded, as it is set now, ask to load it."""
        known = self._known.pop(path, None)
        if known is None:
            known = Known(ModelState("loading", path), new_id())
        elif not known.stays:
            known = known.anew()
        self._path = path
        self._put(path, known)
        self.chosen.emit(path)
        self._find_own(path, lambda own: self._found(path, known.load_id, own))

    def choose(self, path: str) -> None:
        """Choose a model that the engine has, or is loading; any other is passed over."""
        known = self._known.get(path)
        if path != self._path and known is not None and known.state.phase != "failed":
            self._path = path
            self.state_changed.emit(known.state)

    def take_own(self, path: str, own: ModelSettings) -> bool:
        """Let what is set for an open model hold from now on; whether some of it needs it opened again."""
        known = self._known[path]
        self._known[path] = replace(known, own=own)
        return not known.is_loaded_with(own)

    def unload(self, path: str) -> None:
        """Ask the engine to free a model; the state changes when it says so."""
        self._submit(UnloadModel(path))
        if (known := self._known.get(path)) is not None:
            self._known[path] = replace(known, is_leaving=True)

    def add_recent(self, paths: list[str]) -> None:
        """Take in models that were opened before those already known."""
        self._set_recent([*self._recent, *paths])

    def handle(self, event: Event) -> None:
        """Take in an engine event, also of a load that a later one of the model is to replace."""
        match event:
            case LoadProgress() if (path := self._asked_by(event.id)) and event.total_bytes:
                self._put(path, self._known[path].loading(event))
            case ModelReady() | Failed() if path := self._asked_by(event.id):
                is_last = self._known[path].load_id == event.id
                self._put(path, self._known[path].ended(event))
                if is_last and isinstance(event, ModelReady):
                    self._tell_opened(path)
            case ModelUnloaded() if (known := self._known.get(event.path)) is not None:
                self._unloaded(known, event)
            case _:
                pass

    def _found(self, path: str, load_id: str, found: Own) -> None:
        """What is set for a model that was opened: load it, if it is not there, or was loaded otherwise."""
        known, own = self._known.get(path), found.settings
        if known is None or known.load_id != load_id:
            return
        if known.is_loaded_with(own):
            self._known[path] = replace(known, own=own)
            if known.state.phase == "ready":
                self._tell_opened(path)
            return
        if known.loaded_with is not None:
            known = known.anew()
        if found.problem:
            self._put(path, replace(known, own=own).refused(found.problem))
            return
        self._submit(load_command(known.load_id, Path(path), own, found.draft))
        self._put(path, replace(known, own=own, loaded_with=own, is_leaving=False))

    def _unloaded(self, known: Known, event: ModelUnloaded) -> None:
        if (left := known.left(event)) is not None:
            self._put(event.path, left)
            return
        del self._known[event.path]
        self.states_changed.emit(self.states)
        if event.path == self._path:
            self._choose_another()
        if event.reason == "room":
            self.made_room.emit(event.path)

    def _choose_another(self) -> None:
        """The chosen one is gone: the last opened of those that are left takes its place."""
        left = [path for path, known in self._known.items() if known.state.phase != "failed"]
        self._path = left[-1] if left else ""
        self.state_changed.emit(self.state)

    def _asked_by(self, load_id: str) -> str:
        """The model of which this is a load, or one that a later one is to replace; "" for other requests."""
        return next((path for path, known in self._known.items() if load_id in known.load_ids), "")

    def _tell_opened(self, path: str) -> None:
        self._set_recent([path, *self._recent])
        self.opened.emit(path)

    def _set_recent(self, paths: list[str]) -> None:
        known = dict.fromkeys(path for path in paths if path != self._guide)
        self._recent = tuple(known)[:RECENT]
        self.recent_changed.emit(self._recent)

    def _put(self, path: str, known: Known) -> None:
        self._known[path] = known
        self.states_changed.emit(self.states)
        if path == self._path:
            self.state_changed.emit(known.state)
