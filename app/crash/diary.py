"""What the engine was asked last and what it did, in numbers: no text of a chat, no path."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.engine_like import MakeEngine, OnEvent
from engine import (
    Command,
    Event,
    Failed,
    Generate,
    KernelsChosen,
    KernelTrials,
    LoadModel,
    LoadProgress,
    ModelInfo,
    ModelReady,
    ModelUnloaded,
    ProfileStep,
    Stats,
    UnloadModel,
)

_TOLD = (Generate, LoadModel, UnloadModel, ProfileStep)


class Diary:
    """Folds commands and events into one note, and hands it to `note` when it has changed.

    Commands come on any thread, events on the engine's: each changes the note by one assignment, and a note
    that two wrote at once is one of theirs.
    """

    def __init__(self, note: Callable[[dict[str, Any]], None]) -> None:
        self._note = note
        self._kept: dict[str, Any] = {}
        self._load_id = ""

    def watching(self, make: MakeEngine) -> MakeEngine:
        """`make`, of an engine whose commands and events are noted."""
        return lambda emit: _Watched(self, make, emit)

    def asked(self, command: Command) -> None:
        """A command is about to be queued."""
        if isinstance(command, _TOLD):
            path = command.model if isinstance(command, Generate | ProfileStep) else command.path
            of = f" {Path(path).name}" if path else ""
            self._change({"asked": f"{type(command).__name__}{of}"})

    def take(self, event: Event) -> None:
        """Look at an event; cheap, as it is on the engine's thread."""
        match event:
            case LoadProgress():
                self._load_id = event.id
                share = 100 * event.loaded_bytes // max(1, event.total_bytes)
                self._change({"loading": "kernels are tried" if event.is_trying else f"{share} %"})
            case ModelReady() | KernelsChosen():
                self._change({"loading": "", "model": _model(event.model)})
            case ModelUnloaded():
                self._change({"loading": "", "model": None, "steps": None})
            case Failed() if event.id == self._load_id:
                self._change({"loading": ""})
            case KernelTrials():
                state = "running" if event.is_running else "at rest"
                self._change({"trials": f"{event.done:,} of {event.total:,} done, {state}"})
            case Stats():
                self._change({"steps": _steps(event)})
            case _:
                pass

    def _change(self, values: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._kept = {**self._kept, **values, "at": at}
        self._note(self._kept)


class _Watched:
    """An engine that a diary is kept of."""

    def __init__(
        self,
        diary: Diary,
        make: MakeEngine,
        emit: OnEvent,
    ) -> None:
        def seen(event: Event) -> None:
            diary.take(event)
            emit(event)

        self._diary, self._engine = diary, make(seen)
        self.start, self.close = self._engine.start, self._engine.close

    def submit(self, command: Command) -> None:
        """As the engine's."""
        self._diary.asked(command)
        self._engine.submit(command)


def _model(info: ModelInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "family": info.family,
        "weights": info.weight_bytes,
        "dtype": info.dtype,
        "context": info.context_length,
        "executor": info.executor,
        "reason": info.executor_reason,
        "device": info.device,
    }


def _steps(stats: Stats) -> dict[str, Any]:
    return {
        "running": stats.running,
        "waiting": stats.queued,
        "requests": [
            {"prompt": one.prompt_tokens, "read": one.done_tokens, "written": one.generated_tokens}
            for one in stats.requests[:8]
        ],
        "pages": stats.pages_used,
        "cached_pages": stats.cached_pages,
        "total_pages": stats.total_pages,
        "memory": stats.memory.process_bytes,
        "is_short": stats.memory.is_short,
    }
