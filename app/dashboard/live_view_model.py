"""The live figures of every model, and their last minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.dashboard.live_cards import CARDS
from app.dashboard.live_figures import LiveFigures, fold
from app.dashboard.series import Series
from engine import (
    Bandwidth,
    Command,
    Event,
    Failed,
    Finished,
    KernelsChosen,
    MeasureBandwidth,
    ModelReady,
    ModelUnloaded,
    RequestStats,
    Stats,
)


class _Model:
    """One model's figures, and a series for each card."""

    def __init__(self) -> None:
        self.figures = LiveFigures()
        self.series = {card.key: Series() for card in CARDS}

    def take(self, event: Event) -> None:
        self.figures = fold(self.figures, event)
        if isinstance(event, ModelReady | ModelUnloaded):
            for series in self.series.values():
                series.cut()
        elif isinstance(event, Stats):
            for card in CARDS:
                self.series[card.key].add(event.at, card.read(self.figures))


class LiveViewModel(QObject):
    """Folds engine events, of each model apart. `changed` on `flush`, when something has.

    Figures are those of the model on show; what runs is told of all.
    """

    changed = Signal()

    def __init__(
        self,
        submit: Callable[[Command], None],
        model_of: Callable[[str], str],
        parent: QObject | None = None,
    ) -> None:
        """`model_of`: the model that answers a request in flight; "" for what is none."""
        super().__init__(parent)
        self._submit, self._model_of = submit, model_of
        self._models: dict[str, _Model] = {}
        self._of_request: dict[str, str] = {}
        self._bandwidth: float | None = None
        self._shown = ""
        self._has_changed = self._is_measuring = self._is_wanted = False

    @property
    def figures(self) -> LiveFigures:
        """Those of the model on show."""
        model = self._models.get(self._shown)
        return replace(model.figures, bandwidth=self._bandwidth) if model else LiveFigures()

    @property
    def requests(self) -> list[tuple[str, RequestStats]]:
        """What runs, each with its model: those of the model on show first, then in the order of models."""
        models = sorted(self._models.items(), key=lambda item: item[0] != self._shown)
        return [
            (path, request)
            for path, model in models
            for request in (model.figures.stats.requests if model.figures.stats else ())
        ]

    def series(self, key: str) -> Series:
        """The last minutes of a card, of the model on show."""
        model = self._models.get(self._shown)
        return model.series[key] if model else Series()

    @property
    def shown(self) -> str:
        """The model on show, by its path."""
        return self._shown

    def show(self, model: str) -> None:
        """Tell of this model from now on."""
        self._shown, self._has_changed = model, True

    def measure_bandwidth(self) -> None:
        """Have the machine's bandwidth measured, once, when a model is there and nothing runs."""
        self._is_wanted = self._bandwidth is None
        self._ask()

    def handle(self, event: Event) -> None:
        """Take in an engine event; to be called before who answers requests forgets those that end."""
        if isinstance(event, Bandwidth):
            self._measured(event)
        elif model := self._model(event):
            known = self._models.get(model)
            if known is None:
                known = self._models[model] = _Model()
            if known.figures.bandwidth != self._bandwidth:
                known.figures = replace(known.figures, bandwidth=self._bandwidth)
            known.take(event)
            self._has_changed |= model == self._shown or isinstance(event, Stats | ModelUnloaded)
        if isinstance(event, Stats):
            self._of_request.update({request.id: event.model for request in event.requests})
            if not event.running and not event.queued:
                self._ask()
        elif isinstance(event, Finished | Failed):
            self._of_request.pop(event.id, None)

    def flush(self) -> None:
        """Tell the views, when something has changed since the last time."""
        if self._has_changed:
            self._has_changed = False
            self.changed.emit()

    def _ask(self) -> None:
        busy = any(m.figures.stats and m.figures.stats.running for m in self._models.values())
        loaded = any(m.figures.model for m in self._models.values())
        if self._is_wanted and loaded and not busy and not self._is_measuring:
            self._is_measuring = True
            self._submit(MeasureBandwidth())

    def _measured(self, event: Bandwidth) -> None:
        self._is_measuring = False
        if event.bytes_per_second is not None:
            self._bandwidth, self._is_wanted = event.bytes_per_second, False
            self._has_changed = True

    def _model(self, event: Event) -> str:
        """Whose event it is; "" for one that does not count."""
        match event:
            case ModelReady() | KernelsChosen():
                return event.model.path
            case ModelUnloaded():
                return event.path
            case Stats():
                return event.model
            case Finished():
                return self._of_request.get(event.id) or self._model_of(event.id)
            case _:
                return ""
