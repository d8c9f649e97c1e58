"""The status of the chosen model for the status line, told at most once a frame."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.chat.engine_status import EngineStatus, fold
from engine import (
    CacheReport,
    Event,
    Failed,
    Finished,
    KernelsChosen,
    ModelReady,
    ModelUnloaded,
    PrefillProgress,
    Stats,
    TextChunk,
)


class StatusViewModel(QObject):
    """Folds engine events, of each model apart; `changed(EngineStatus)` on `flush`, when something has."""

    changed = Signal(object)

    def __init__(self, model_of: Callable[[str], str], parent: QObject | None = None) -> None:
        """`model_of`: the model that answers a request in flight; "" for what is none."""
        super().__init__(parent)
        self._model_of = model_of
        self._of: dict[str, EngineStatus] = {}
        self._shown = ""
        self._told = EngineStatus()

    @property
    def status(self) -> EngineStatus:
        """The status of the chosen model after all events so far."""
        return self._of.get(self._shown, EngineStatus())

    def show(self, model: str) -> None:
        """Tell of this model from now on."""
        self._shown = model
        self.flush()

    def handle(self, event: Event) -> None:
        """Take in an engine event; to be called before who answers requests forgets those that end."""
        if model := self._model(event):
            self._of[model] = fold(self._of.get(model, EngineStatus()), event)

    def flush(self) -> None:
        """Tell the view what has changed since the last time."""
        if self.status != self._told:
            self._told = self.status
            self.changed.emit(self.status)

    def _model(self, event: Event) -> str:
        """Whose event it is; "" for one that does not count."""
        match event:
            case ModelReady() | KernelsChosen():
                return event.model.path
            case ModelUnloaded():
                return event.path
            case Stats():
                return event.model
            case CacheReport() | PrefillProgress() | TextChunk() | Finished() | Failed():
                return self._model_of(event.id)
            case _:
                return ""
