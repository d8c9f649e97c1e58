"""The kernels: what is known of them on this machine, a check of them, a profile, and a report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from app.dashboard.cache_view_model import CacheViewModel
from app.dashboard.kernel_figures import report, report_json, report_markdown
from app.errors import AppError
from app.models.background import Background
from engine import (
    Command,
    EngineError,
    Event,
    Failed,
    KernelCheck,
    KernelMachine,
    KernelsChosen,
    KernelTable,
    ProfileStep,
    StepProfile,
    StepProfiled,
)

Result = TypeVar("Result")

UNKNOWN = KernelTable(KernelMachine(None, "it is being looked at"), ())


class KernelsViewModel(QObject):
    """`changed` when the table, the checks, the profile or what runs have; `failed(words)`, `saved(path)`.

    Attributes:
        table: the verdicts that are known on this machine.
        checks: what came of the check so far, or of the last one.
        is_checking: whether one runs.
    """

    changed = Signal()
    failed = Signal(str)
    saved = Signal(str)

    def __init__(
        self,
        background: Background,
        engine: CacheViewModel,
        read_table: Callable[[], KernelTable],
        check: Callable[[], Iterator[KernelCheck]],
        submit: Callable[[Command], None],
        parent: QObject | None = None,
    ) -> None:
        """`engine` knows model and stats; `read_table` and `check` are called on the background's thread."""
        super().__init__(parent)
        self.engine = engine
        self._background, self._read_table, self._check = background, read_table, check
        self._submit = submit
        self._stop = threading.Event()
        self._numbers = count(1)
        self._profile_id = ""
        self._profile: StepProfile | None = None
        self.table = UNKNOWN
        self.checks: list[KernelCheck] = []
        self.is_checking = False

    def look(self) -> None:
        """Read the verdicts: trials may have come to new ones."""
        if not self.is_checking:
            self._background.ask(lambda: _guarded(self._read_table), self._set_table, self.failed.emit)

    def start_check(self) -> None:
        """Run every kernel on many shapes and compare it with its reference."""
        if self.is_checking:
            return
        self._stop.clear()
        self.checks, self.is_checking = [], True
        self.changed.emit()
        self._background.ask(lambda: _guarded(self._run), lambda _: self._end(""), self._end)

    def stop_check(self) -> None:
        """End it; what came of it so far stays."""
        self._stop.set()

    @property
    def is_profiling(self) -> bool:
        """Whether a step is measured."""
        return bool(self._profile_id)

    @property
    def profile(self) -> StepProfile | None:
        """The last one of the model on show, while the same kernels run."""
        info, profile = self.engine.info, self._profile
        return profile if profile and info and profile.model == info.path else None

    def start_profile(self) -> None:
        """Measure a step of the model on show, part by part; nothing where none is in memory."""
        info = self.engine.info
        if self.is_profiling or info is None:
            return
        self._profile_id = f"kernels-profile-{next(self._numbers)}"
        self.changed.emit()
        self._submit(ProfileStep(self._profile_id, info.path))

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        match event:
            case StepProfiled() if event.id == self._profile_id:
                self._end_profile(event.profile)
            case Failed() if event.id == self._profile_id:
                self._end_profile(self._profile)
                self.failed.emit(event.error)
            case KernelsChosen() if self._profile and event.model.path == self._profile.model:
                self._profile = None
                self.changed.emit()
            case _:
                pass

    def save(self, path: Path) -> None:
        """Write the report to `path` as Markdown, and beside it as JSON."""
        info, stats = self.engine.info, self.engine.stats
        words = report_markdown(info, stats, self.table, self.checks, self.profile)
        values = report_json(report(info, stats, self.table, self.checks, self.profile))
        try:
            path.write_text(words, "utf-8")
            path.with_suffix(".json").write_text(values, "utf-8")
        except OSError as error:
            self.failed.emit(f"{path} cannot be written ({error.strerror}); choose another folder")
        else:
            self.saved.emit(str(path))

    def _run(self) -> None:
        for check in self._check():
            self._background.tell(lambda check=check: self._add(check))
            if self._stop.is_set():
                return

    def _add(self, check: KernelCheck) -> None:
        self.checks.append(check)
        self.changed.emit()

    def _end_profile(self, profile: StepProfile | None) -> None:
        self._profile_id, self._profile = "", profile
        self.changed.emit()

    def _end(self, problem: str) -> None:
        self.is_checking = False
        self.changed.emit()
        if problem:
            self.failed.emit(problem)

    def _set_table(self, table: KernelTable) -> None:
        self.table = table
        self.changed.emit()


def _guarded(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except EngineError as error:
        raise AppError(str(error)) from None
