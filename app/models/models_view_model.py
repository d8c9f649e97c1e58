"""Which models are loaded, as the engine's events tell it, which is chosen, and the wish for another one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app import text
from app.chat_sampling import chat_sampling
from app.engine_settings import load_command
from app.library.records import NOTHING_SET, ModelSettings
from app.model_location import model_title
from engine import (
    Command,
    Event,
    Failed,
    LoadProgress,
    ModelInfo,
    ModelReady,
    ModelUnloaded,
    SamplingParams,
    UnloadModel,
)

FindOwn = Callable[[str, Callable[[ModelSettings], None]], None]
ModelPhase = Literal["none", "loading", "ready", "resting", "failed"]

RECENT = 8


@dataclass(frozen=True, slots=True)
class ModelState:
    """Where the engine stands with a model.

    Attributes:
        phase: "ready" from the engine's ModelReady until it says otherwise; "resting" when nobody used it:
            it has left memory, and comes back with the next request; "none" where there is no model.
        path: folder or GGUF file of the model that is loaded, loading, resting or failed to.
        progress: share of the weights that are in memory, 0 to 1, while loading.
        is_trying: they all are, and kernels are tried before the first request.
        info: the loaded model, when ready.
        error: the one line that says why it failed, when failed; of a model that is there all the same, why
            it could not be loaded anew.
    """

    phase: ModelPhase = "none"
    path: str = ""
    progress: float = 0.0
    is_trying: bool = False
    info: ModelInfo | None = None
    error: str = ""

    @property
    def name(self) -> str:
        """The model's name for people; "" without one."""
        return model_title(Path(self.path)) if self.path else ""


@dataclass(frozen=True, slots=True)
class _Known:
    """A model that was opened: its state, the id of its load, and what is set for it.

    `loaded_with`: what of that the engine was told; None before it is asked to load it. `before`: as it was,
    while the engine loads it anew and has it still.
    """

    state: ModelState
    load_id: str
    own: ModelSettings = NOTHING_SET
    loaded_with: ModelSettings | None = None
    before: _Known | None = None

    @property
    def takes_requests(self) -> bool:
        """Whether a request reaches it: it waits in the engine while the model loads or rests."""
        phase = self.state.phase
        return phase in ("ready", "resting") or (phase == "loading" and self.loaded_with is not None)

    @property
    def stays(self) -> bool:
        """Whether it is in memory, or on its way there, as it is set now."""
        is_outdated = self.loaded_with is not None and not self.is_loaded_with(self.own)
        return self.state.phase in ("loading", "ready") and not is_outdated

    def anew(self) -> _Known:
        """It, to be loaded once more."""
        has_it = self.state.phase in ("ready", "resting")
        return _Known(
            ModelState("loading", self.state.path), _new_id(), before=self if has_it else self.before
        )

    def loading(self, event: LoadProgress) -> _Known:
        """It, so far; also one that rested, and is loaded again for a request."""
        progress = event.loaded_bytes / event.total_bytes
        state = ModelState("loading", self.state.path, progress, event.is_trying)
        return replace(self, state=state, before=self if self.state.phase == "resting" else self.before)

    def failed(self, error: str) -> _Known:
        """It, behind a load that was refused: as it was, where the engine has it still."""
        if self.before is None:
            return replace(self, state=ModelState("failed", self.state.path, error=error))
        return replace(self.before, state=replace(self.before.state, error=error), own=self.own)

    def is_loaded_with(self, own: ModelSettings) -> bool:
        """Whether the engine would be told the same as it was."""
        told = self.loaded_with
        return told is not None and (own.context, own.kv_cache) == (told.context, told.kv_cache)


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
        find_own: FindOwn = lambda path, then: then(NOTHING_SET),
        parent: QObject | None = None,
    ) -> None:
        """`find_own` tells, now or later on this thread, what is set for a model alone."""
        super().__init__(parent)
        self._submit = submit
        self._find_own = find_own
        self._guide = str(guide)
        self._known: dict[str, _Known] = {}  # by path, the last opened last
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
            known = _Known(ModelState("loading", path), _new_id())
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

    def add_recent(self, paths: list[str]) -> None:
        """Take in models that were opened before those already known."""
        self._set_recent([*self._recent, *paths])

    def handle(self, event: Event) -> None:
        """Take in an engine event. Those of a load that a later one of the model replaced are passed over."""
        match event:
            case LoadProgress() if (path := self._loaded_by(event.id)) and event.total_bytes:
                self._put(path, self._known[path].loading(event))
            case ModelReady() if path := self._loaded_by(event.id):
                ready = ModelState("ready", path, info=event.model)
                self._put(path, replace(self._known[path], state=ready, before=None))
                self._tell_opened(path)
            case Failed() if path := self._loaded_by(event.id):
                self._put(path, self._known[path].failed(event.error))
            case ModelUnloaded() if (known := self._known.get(event.path)) is not None:
                self._unloaded(known, event)
            case _:
                pass

    def _found(self, path: str, load_id: str, own: ModelSettings) -> None:
        """What is set for a model that was opened: load it, if it is not there, or was loaded otherwise."""
        known = self._known.get(path)
        if known is None or known.load_id != load_id:
            return
        if known.is_loaded_with(own):
            self._known[path] = replace(known, own=own)
            if known.state.phase == "ready":
                self._tell_opened(path)
            return
        if known.loaded_with is not None:
            known = known.anew()
        self._submit(load_command(known.load_id, Path(path), own))
        self._put(path, replace(known, own=own, loaded_with=own))

    def _unloaded(self, known: _Known, event: ModelUnloaded) -> None:
        phase, resting = known.state.phase, ModelState("resting", event.path)
        if phase == "loading":  # a later event says what becomes of that
            rests = known.before and replace(known.before, state=resting)
            self._known[event.path] = replace(known, before=rests if event.reason == "idle" else None)
        elif event.reason == "idle" and phase == "ready":
            self._put(event.path, replace(known, state=resting))
        elif event.reason != "idle" and phase in ("ready", "resting"):
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

    def _loaded_by(self, load_id: str) -> str:
        """The model whose last load has this id; "" for an older load, or another request."""
        return next((path for path, known in self._known.items() if known.load_id == load_id), "")

    def _tell_opened(self, path: str) -> None:
        self._set_recent([path, *self._recent])
        self.opened.emit(path)

    def _set_recent(self, paths: list[str]) -> None:
        known = dict.fromkeys(path for path in paths if path != self._guide)
        self._recent = tuple(known)[:RECENT]
        self.recent_changed.emit(self._recent)

    def _put(self, path: str, known: _Known) -> None:
        self._known[path] = known
        self.states_changed.emit(self.states)
        if path == self._path:
            self.state_changed.emit(known.state)


def _new_id() -> str:
    return f"load-{uuid.uuid4().hex}"
