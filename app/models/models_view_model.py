"""Which model is loaded, as the engine's events tell it, and the wish for another one."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

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
    """Where the engine stands with its model.

    Attributes:
        phase: "ready" only between the engine's ModelReady and the next load; "resting" when nobody used it:
            it has left memory, and comes back with the next request.
        path: folder or GGUF file of the model that is loaded, loading, resting or failed to.
        progress: share of the weights that are in memory, 0 to 1, while loading.
        is_trying: they all are, and kernels are tried before the first request.
        info: the loaded model, when ready.
        error: the one line that says why it failed, when failed.
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


class ModelsViewModel(QObject):
    """The loaded model and those opened before.

    Signals: `state_changed(ModelState)`, `recent_changed(tuple of paths)`, `opened(path)` when one is ready.
    """

    state_changed = Signal(object)
    recent_changed = Signal(object)
    opened = Signal(str)

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
        self._own = self._loaded_with = NOTHING_SET
        self._guide = str(guide)
        self._state = ModelState()
        self._load_id = ""
        self._is_asked = False
        self._recent: tuple[str, ...] = ()

    @property
    def state(self) -> ModelState:
        """The model's state."""
        return self._state

    @property
    def guide(self) -> str:
        """Folder of the built-in model."""
        return self._guide

    @property
    def is_guide(self) -> bool:
        """Whether the model loaded or loading is the built-in one."""
        return self._state.path == self._guide

    @property
    def recent(self) -> tuple[str, ...]:
        """Models opened before, the last one first, without the guide."""
        return self._recent

    @property
    def takes_requests(self) -> bool:
        """Whether a request reaches the model on show: it waits in the engine while that loads or rests."""
        phase = self._state.phase
        return phase in ("ready", "resting") or (phase == "loading" and self._is_asked)

    @property
    def system(self) -> str:
        """What the model is told before each new chat; "" is nothing."""
        return self._own.system

    def sampling(self, answers: int = 1) -> SamplingParams:
        """How the loaded model's words are drawn for so many answers to one question."""
        return chat_sampling(Path(self._state.path), answers, self._own)

    def open(self, path: str) -> None:
        """Ask the engine to load the model in place of what is loaded."""
        self._load_id = load_id = f"load-{uuid.uuid4().hex}"
        self._is_asked = False
        self._set(ModelState("loading", path))

        def load(own: ModelSettings) -> None:
            if load_id == self._load_id:
                self._own = self._loaded_with = own
                self._submit(load_command(load_id, Path(path), own))
                self._is_asked = True
                self._set(self._state)

        self._find_own(path, load)

    def take_own(self, own: ModelSettings) -> bool:
        """Let what is set for the open model hold from now on; whether some of it needs it opened again."""
        self._own = own
        before = self._loaded_with
        return (own.context, own.kv_cache) != (before.context, before.kv_cache)

    def unload(self) -> None:
        """Ask the engine to free the model; the state changes when it says so."""
        self._submit(UnloadModel())

    def add_recent(self, paths: list[str]) -> None:
        """Take in models that were opened before those already known."""
        self._set_recent([*self._recent, *paths])

    def handle(self, event: Event) -> None:
        """Take in an engine event. Those of a load that a later one replaced are passed over."""
        match event:
            case LoadProgress(id=self._load_id) if event.total_bytes:
                progress = event.loaded_bytes / event.total_bytes
                self._set(ModelState("loading", self._state.path, progress, event.is_trying))
            case ModelReady(id=self._load_id):
                self._set(ModelState("ready", self._state.path, info=event.model))
                self._set_recent([self._state.path, *self._recent])
                self.opened.emit(self._state.path)
            case Failed(id=self._load_id):
                self._set(ModelState("failed", self._state.path, error=event.error))
            case ModelUnloaded(reason="idle") if self._state.phase == "ready":
                self._set(ModelState("resting", self._state.path))
            case ModelUnloaded() if self._state.phase in ("ready", "resting"):
                self._set(ModelState())
            case _:
                pass

    def _set_recent(self, paths: list[str]) -> None:
        known = dict.fromkeys(path for path in paths if path != self._guide)
        self._recent = tuple(known)[:RECENT]
        self.recent_changed.emit(self._recent)

    def _set(self, state: ModelState) -> None:
        self._state = state
        self.state_changed.emit(state)
