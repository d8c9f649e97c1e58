"""How far the trials of kernels are, of the model on show, as the engine tells it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from engine import Command, Event, KernelTrials, ModelUnloaded, PutOffTrials


class TrialsViewModel(QObject):
    """Keeps what was told last; `changed` on `flush`, when that is something else."""

    changed = Signal()

    def __init__(self, submit: Callable[[Command], None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._submit = submit
        self._trials: KernelTrials | None = None
        self._has_changed = False

    @property
    def trials(self) -> KernelTrials | None:
        """None before any were told, and when their model has gone."""
        return self._trials

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        if isinstance(event, KernelTrials):
            self._trials, self._has_changed = event, True
        elif isinstance(event, ModelUnloaded) and self._trials and self._trials.model == event.path:
            self._trials, self._has_changed = None, True

    def flush(self) -> None:
        """Tell the views, when something has changed since the last time."""
        if self._has_changed:
            self._has_changed = False
            self.changed.emit()

    def put_off(self, are_put_off: bool) -> None:
        """Make no trials until MLXR is started again or this is taken back."""
        self._submit(PutOffTrials(are_put_off))
