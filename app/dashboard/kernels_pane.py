"""The kernels: what runs and why, how often and for how long, what was chosen here, and a check of them."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Slot
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QPushButton, QWidget

from app import text
from app.appearance import Appearance
from app.dashboard.kernel_figures import (
    CHOICE_COLUMNS,
    check_words,
    choice_rows,
    launch_rows,
    launch_words,
    runs_words,
    table_words,
)
from app.dashboard.kernels_view_model import KernelsViewModel
from app.dashboard.pane import Pane, Panel, Section
from app.dashboard.tables import fill, plain_table
from app.first_run import trial_words
from app.first_run.trials_view_model import TrialsViewModel
from app.profile_words import COLUMNS, profile_rows, profile_words
from app.widgets.banner import Banner
from app.widgets.plain_label import plain_label

LAUNCH_COLUMNS = ("Operation", "Whose", "Launches", "For each token")
REPORT = "mlxr-kernels.md"
PROFILE = "Profile a step"
REFRESH_MS = 500
"""At least between two looks at counts that change with every step."""


class KernelsPane(Pane):
    """Shows a KernelsViewModel, the model and stats that it knows, and trials, while it is seen."""

    def __init__(
        self,
        appearance: Appearance,
        kernels: KernelsViewModel,
        trials: TrialsViewModel,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._kernels, self._trials = kernels, trials
        self.banner = Banner(appearance, parent=self.content)
        self._panel = Panel(self.content)
        self.runs, self.notes, self.launches, self.choices, self.tried, self.checked = (
            plain_label("", role, self._panel) for role in ("strong", "", "", "", "", "")
        )
        self.check_button = QPushButton("Check kernels", self._panel)
        self.profile_button = QPushButton(PROFILE, self._panel)
        self.trials_button = QPushButton(self._panel)
        self.report_button = QPushButton("Export report…", self._panel)
        self.check_button.setToolTip("Run every kernel on many shapes and compare it with its reference")
        self.profile_button.setToolTip("Measure a step of this model part by part; a message goes first")
        self.report_button.setToolTip("Save all of this as Markdown and JSON, for a bug report")
        profiled, launched, chosen = (
            Section(title, self.content)
            for title in ("A step, part by part", "Launches", "Chosen on this machine")
        )
        self.launch_table = plain_table(launched, LAUNCH_COLUMNS, "Launches by operation", words=(0, 1))
        self.profiled = plain_label("", "muted", profiled)
        self.profile_table = plain_table(
            profiled, COLUMNS, "Parts of a decode step and their times alone", words=(0, 1), wide=1
        )
        self.choice_table = plain_table(
            chosen, CHOICE_COLUMNS, "Kernels chosen on this machine", words=(0, 1, 4), wide=4
        )
        self._profiled = profiled
        self._sections = (launched, chosen)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(REFRESH_MS)
        self._soon.timeout.connect(self.refresh)
        self._arrange()
        kernels.changed.connect(self.refresh)
        kernels.engine.changed.connect(self._refresh_soon)
        trials.changed.connect(self._refresh_trials)
        kernels.failed.connect(self._say_problem)
        kernels.saved.connect(self._say_saved)
        self.check_button.clicked.connect(self._start_or_stop)
        self.profile_button.clicked.connect(self._start_profile)
        self.trials_button.clicked.connect(self._put_off_or_go_on)
        self.report_button.clicked.connect(self._save)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Somebody looks."""
        super().showEvent(event)
        self._kernels.look()
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 (Qt's name)
        """Nobody looks any more."""
        super().hideEvent(event)
        self.banner.hide()

    @Slot()
    def refresh(self) -> None:
        """Show what is known now."""
        if not self.isVisible():
            return
        kernels, info, stats = self._kernels, self._kernels.engine.info, self._kernels.engine.stats
        self.runs.setText(runs_words(info))
        self.notes.setText("\n".join(info.kernel_notes) if info else "")
        self.notes.setVisible(bool(self.notes.text()))
        self.launches.setText(launch_words(stats))
        self.choices.setText(table_words(kernels.table))
        launched, chosen = launch_rows(stats), choice_rows(kernels.table)
        fill(self.launch_table, launched, most=6, grows=True)
        fill(self.choice_table, chosen, most=6, grows=True)
        for rows, section in zip((launched, chosen), self._sections, strict=True):
            section.setVisible(bool(rows))
        self._show_profile()
        self._show_trials()
        is_said = kernels.is_checking or bool(kernels.checks)
        self.checked.setText(check_words(kernels.checks, not kernels.is_checking) if is_said else "")
        self.check_button.setText("Stop" if kernels.is_checking else "Check kernels")

    @Slot()
    def _refresh_soon(self) -> None:
        if self.isVisible() and not self._soon.isActive():
            self._soon.start()

    @Slot()
    def _start_or_stop(self) -> None:
        self.banner.hide()
        if self._kernels.is_checking:
            self._kernels.stop_check()
        else:
            self._kernels.start_check()

    @Slot()
    def _start_profile(self) -> None:
        self.banner.hide()
        self._kernels.start_profile()

    @Slot()
    def _put_off_or_go_on(self) -> None:
        trials = self._trials.trials
        self._trials.put_off(trials is not None and not trials.are_put_off)

    @Slot()
    def _refresh_trials(self) -> None:
        if self.isVisible():
            self._kernels.look()  # there may be a verdict more
            self._show_trials()

    def _show_trials(self) -> None:
        trials = self._trials.trials
        said = trial_words.pane_words(trials)
        self.tried.setText(said)
        self.tried.setVisible(bool(said))
        self.trials_button.setVisible(bool(said) and trials is not None and not trials.problem)
        are_put_off = trials is not None and trials.are_put_off
        self.trials_button.setText(trial_words.GO_ON if are_put_off else trial_words.PUT_OFF)

    def _show_profile(self) -> None:
        kernels, profile = self._kernels, self._kernels.profile
        self.profile_button.setEnabled(kernels.engine.info is not None and not kernels.is_profiling)
        self.profile_button.setText("Measuring…" if kernels.is_profiling else PROFILE)
        self._profiled.setVisible(profile is not None)
        if profile is not None:
            self.profiled.setText(profile_words(profile))
            rows = profile_rows(profile)
            fill(self.profile_table, rows, most=len(rows))

    @Slot()
    def _save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Export report", REPORT, "Markdown (*.md)")
        if path:
            self._kernels.save(Path(path).with_suffix(".md"))

    @Slot(str)
    def _say_problem(self, words: str) -> None:
        self.banner.say(text.sentence(words))

    @Slot(str)
    def _say_saved(self, path: str) -> None:
        self.banner.say(f"Saved as {path}, and as JSON beside it")

    def _arrange(self) -> None:
        labels = (self.runs, self.notes, self.launches, self.choices, self.tried)
        for label in (*labels, self.checked, self.profiled):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        buttons = QHBoxLayout()
        buttons.addWidget(self.check_button)
        buttons.addWidget(self.profile_button)
        buttons.addWidget(self.report_button)
        buttons.addWidget(self.trials_button)
        buttons.addWidget(self.checked, 1)
        for label in labels:
            self._panel.column.addWidget(label)
        self._panel.column.addLayout(buttons)
        self.column.addWidget(self.banner)
        self.column.addWidget(self._panel)
        launched, chosen = self._sections
        launched.column.addWidget(self.launch_table)
        self._profiled.column.addWidget(self.profiled)
        self._profiled.column.addWidget(self.profile_table)
        chosen.column.addWidget(self.choice_table)
        for section in (self._profiled, launched, chosen):  # what was just asked for is seen first
            self.column.addWidget(section)
        self.column.addStretch(1)
