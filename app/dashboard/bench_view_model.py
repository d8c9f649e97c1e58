"""Benchmarks: what is to be run, how far it is, and what was measured before."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.dashboard.bench_child import PATIENCE, BenchChild
from app.dashboard.bench_plans import SIZES, BenchPlan, Kind, Length
from app.dashboard.bench_progress import BenchProgress
from app.dashboard.bench_results import BenchResult, Kept, delete, keep, read_kept
from app.errors import AppError
from app.models.background import Background
from app.models.models_view_model import ModelsViewModel
from app.paths import Paths
from engine import Command, EngineError, LetRest, inspect_model

Phase = Literal["idle", "waiting", "running", "stopping"]
AT_ONCE = 0.001
"""Seconds without a request after which a model leaves memory, while a benchmark wants all of it."""
TICK_MS = 250


class BenchViewModel(QObject):
    """`changed` when anything below has; `failed(words)`.

    Attributes:
        kind, length: what is to be run.
        phase: "waiting" until the window's own models have left memory.
        said: what the benchmark told last.
        share: how much of it is done, from 0 to 1; None before it measures.
        kept: the results in the folder.
        shown: the one that is looked at.
    """

    changed = Signal()
    failed = Signal(str)

    def __init__(
        self,
        background: Background,
        models: ModelsViewModel,
        submit: Callable[[Command], None],
        rest_after: Callable[[], float | None],
        paths: Paths,
        parent: QObject | None = None,
    ) -> None:
        """`background` is its own; `rest_after`: seconds until a model may leave memory, as it is set."""
        super().__init__(parent)
        self._background, self._models, self._submit = background, models, submit
        self._rest_after, self._paths = rest_after, paths
        self.kind: Kind = "decode"
        self.length: Length = "short"
        self.phase: Phase = "idle"
        self.said = ""
        self.share: float | None = None
        self.kept = Kept()
        self.shown: BenchResult | None = None
        self._child = BenchChild(paths.home)
        self._wanted = self.plan
        self._began = 0.0
        self._is_disturbed = False
        self._tick = QTimer(self)
        self._tick.setInterval(TICK_MS)
        self._tick.timeout.connect(self.changed)
        models.states_changed.connect(self._look_at_models)
        models.state_changed.connect(self.changed)

    @property
    def plan(self) -> BenchPlan:
        """What would be run now: of the chosen model, else of the guide."""
        return BenchPlan(self.kind, self.length, self._models.state.path or self._models.guide)

    @property
    def seconds(self) -> float:
        """How long it runs already."""
        return time.monotonic() - self._began if self.phase in ("running", "stopping") else 0.0

    @property
    def usual_seconds(self) -> float | None:
        """How long the same took last; None before it ever ran."""
        plan = self.plan
        known = (one for one in self.kept.results if (one.kind, one.length) == (plan.kind, plan.length))
        return next((one.seconds for one in known if one.model == plan.model), None)

    def name_of(self, model: str) -> str:
        """A model's name for people."""
        return self._models.name_of(model)

    def choose(self, kind: Kind, length: Length) -> None:
        """Let this be run next."""
        self.kind, self.length = kind, length
        self.changed.emit()

    def look(self) -> None:
        """Read the results; not while a benchmark runs, whose end reads them."""
        if self.phase == "idle":
            self._background.ask(lambda: read_kept(self._paths.benchmarks), self._take, self.failed.emit)

    def show(self, result: BenchResult) -> None:
        """Look at this one."""
        self.shown = result
        self.changed.emit()

    def delete(self, result: BenchResult) -> None:
        """Delete it for good."""
        if self.phase != "idle":
            return

        def work() -> Kept:
            delete(self._paths.benchmarks, result.name)
            return read_kept(self._paths.benchmarks)

        self._background.ask(work, self._take, self.failed.emit)

    def start(self) -> None:
        """Run the plan as soon as the window's own models have left memory."""
        if self.phase == "idle":
            self._wanted = self.plan
            self.phase, self.said, self.share, self._is_disturbed = "waiting", "", None, False
            self._submit(LetRest(AT_ONCE))
            self._look_at_models()
            self.changed.emit()

    def stop(self) -> None:
        """End the benchmark; nothing of it is kept."""
        if self.phase == "waiting":
            self._end("")
        elif self.phase == "running":
            self.phase = "stopping"
            self._child.stop()
            self.changed.emit()

    def close(self) -> bool:
        """End what runs, which takes PATIENCE and a moment at most. Returns whether it ended."""
        self._tick.stop()
        self._child.stop()
        return self._background.close(PATIENCE + 1)

    @Slot()
    def _look_at_models(self) -> None:
        is_any = any(state.phase in ("ready", "loading") for state in self._models.states.values())
        if self.phase == "waiting" and not is_any:
            self._run()
        elif self.phase == "running" and is_any:
            self._is_disturbed = True

    def _run(self) -> None:
        plan, child = self._wanted, BenchChild(self._paths.home)
        self.phase, self._child, self._began = "running", child, time.monotonic()

        def work() -> tuple[BenchResult, Kept]:
            sizes = SIZES[plan.length].within(_context_length(plan.model))
            progress = BenchProgress(plan.quantities(sizes))
            report = child.run(plan.arguments(sizes), lambda line: self._hear(line, progress))
            return self._keep(plan, report), read_kept(self._paths.benchmarks)

        self._background.ask(work, self._done, self._end)
        self._tick.start()

    def _keep(self, plan: BenchPlan, report: dict[str, Any]) -> BenchResult:
        seconds = time.monotonic() - self._began
        return keep(
            self._paths.benchmarks, plan.kind, plan.length, plan.model, seconds, self._is_disturbed, report
        )

    def _hear(self, line: str, progress: BenchProgress) -> None:
        progress.hear(line)
        share = progress.share

        def take() -> None:
            self.said, self.share = line, share

        self._background.tell(take)

    def _done(self, results: tuple[BenchResult, Kept]) -> None:
        self.shown, self.kept = results
        self._end("")

    def _end(self, problem: str) -> None:
        was_stopped = self.phase == "stopping"
        self.phase, self.said, self.share = "idle", "", None
        self._tick.stop()
        self._submit(LetRest(self._rest_after()))
        self.changed.emit()
        if problem and not was_stopped:
            self.failed.emit(problem)

    def _take(self, kept: Kept) -> None:
        self.kept = kept
        name = self.shown.name if self.shown else ""
        newest = kept.results[0] if kept.results else None
        self.shown = next((one for one in kept.results if one.name == name), newest)
        self.changed.emit()


def _context_length(model: str) -> int:
    try:
        return inspect_model(Path(model)).context_length
    except EngineError as error:
        raise AppError(str(error)) from None
