"""Where the engine stands with a model that was opened, as its events tell it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from app.library.records import NOTHING_SET, ModelSettings
from app.model_location import model_title
from engine import Failed, LoadProgress, ModelInfo, ModelReady, ModelUnloaded

ModelPhase = Literal["none", "loading", "ready", "resting", "failed"]


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
class Known:
    """A model that was opened: its state, the id of its load, and what is set for it.

    `loaded_with`: what of that the engine was told; None before it is asked to load it. `before`: as it was
    before it is loaded anew, while the engine has it so still, or loads it so first. `is_leaving`: the engine
    was asked to free it.
    """

    state: ModelState
    load_id: str
    own: ModelSettings = NOTHING_SET
    loaded_with: ModelSettings | None = None
    before: Known | None = None
    is_leaving: bool = False

    @property
    def is_there(self) -> bool:
        """Whether the engine has it, in memory or at rest."""
        return self.state.phase in ("ready", "resting")

    @property
    def load_ids(self) -> tuple[str, ...]:
        """Of its load, and of those before that may not have ended yet."""
        return (self.load_id, *(self.before.load_ids if self.before else ()))

    @property
    def takes_requests(self) -> bool:
        """Whether a request reaches it: it waits in the engine while the model loads or rests."""
        return self.is_there or (self.state.phase == "loading" and self.loaded_with is not None)

    @property
    def stays(self) -> bool:
        """Whether it is in memory, or on its way there, as it is set now, and nobody asked to free it."""
        is_outdated = self.loaded_with is not None and not self.is_loaded_with(self.own)
        return self.state.phase in ("loading", "ready") and not is_outdated and not self.is_leaving

    def anew(self) -> Known:
        """It, to be loaded once more."""
        return Known(
            ModelState("loading", self.state.path),
            new_id(),
            before=self if self.takes_requests else self.before,
        )

    def loading(self, event: LoadProgress) -> Known:
        """It, so far; also one that rested, and is loaded again for a request."""
        progress = event.loaded_bytes / event.total_bytes
        state = ModelState("loading", self.state.path, progress, event.is_trying)
        return replace(self, state=state, before=self if self.state.phase == "resting" else self.before)

    def ended(self, event: ModelReady | Failed) -> Known:
        """It, behind the end of one of its loads: as it was, if the engine refused and has it still."""
        if event.id != self.load_id:
            return replace(self, before=self.before and self.before.ended(event))
        if isinstance(event, ModelReady):
            state = ModelState("ready", self.state.path, info=event.model)
            return replace(self, state=state, before=None)
        return self.refused(event.error)

    def refused(self, error: str) -> Known:
        """It, as it cannot be loaded: as it was, if the engine has it still."""
        was = self if self.is_there else self.before
        if was is None or not was.is_there:
            return replace(self, state=ModelState("failed", self.state.path, error=error), before=None)
        return replace(was, state=replace(was.state, error=error), own=self.own)

    def left(self, event: ModelUnloaded) -> Known | None:
        """It, behind this; None where nothing is left of it."""
        if not self.is_there:
            before = self.before and self.before.left(event)
            is_woken = before is not None and before.load_id == self.load_id  # nobody waits for that any more
            return before if is_woken else replace(self, before=before)
        return replace(self, state=ModelState("resting", event.path)) if event.reason == "idle" else None

    def is_loaded_with(self, own: ModelSettings) -> bool:
        """Whether the engine would be told the same as it was."""
        told = self.loaded_with
        return told is not None and _of_load(own) == _of_load(told)


def _of_load(own: ModelSettings) -> tuple[object, ...]:
    """What of it holds from a load on."""
    return own.context, own.kv_cache, own.draft_model


def new_id() -> str:
    """For a load."""
    return f"load-{uuid.uuid4().hex}"
