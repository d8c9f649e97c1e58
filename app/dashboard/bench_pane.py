"""Benchmarks: what to run, how it goes, what came of it beside the last one, and all that is kept."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Slot
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QWidget

from app import text
from app.appearance import Appearance
from app.dashboard.bench_context_panel import ContextPanel
from app.dashboard.bench_context_view_model import ContextViewModel
from app.dashboard.bench_plans import KINDS, LENGTHS, SIZES, Kind, Length
from app.dashboard.bench_view_model import BenchViewModel
from app.dashboard.bench_words import (
    COLUMNS,
    KEPT_COLUMNS,
    compared_words,
    earlier,
    kept_rows,
    markdown,
    notes,
    progress_words,
    rows,
    title,
    usual_words,
    when,
)
from app.dashboard.pane import Pane, Panel, Section
from app.dashboard.tables import fill, plain_table
from app.widgets.banner import Banner
from app.widgets.choice_row import ChoiceRow
from app.widgets.copy_button import CopyButton
from app.widgets.plain_label import plain_label

RUN, STOP = "Run", "Stop"
MEANWHILE = "It rests while the benchmark runs in a process of its own; leave chats alone until it is done."
NONE_KEPT = "No benchmark was run yet."
MOST_ROWS, MOST_KEPT = 14, 8
STEPS = 1000
"""Of the bar."""


class BenchPane(Pane):
    """Shows a BenchViewModel, and a ContextViewModel in a panel below it, while it is seen."""

    def __init__(
        self,
        appearance: Appearance,
        bench: BenchViewModel,
        contexts: ContextViewModel,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.bench = bench
        self.banner = Banner(appearance, parent=self.content)
        self._panel = Panel(self.content)
        self.kinds = ChoiceRow("Benchmark", list(KINDS.items()), bench.kind, self._panel)
        self.lengths = ChoiceRow("Length", list(LENGTHS.items()), bench.length, self._panel)
        self.about, self.usual, self.progress = (
            plain_label("", role, self._panel) for role in ("", "muted", "")
        )
        self.bar = QProgressBar(self._panel)
        self.run_button = QPushButton(RUN, self._panel)
        self._result = Section("", self.content)
        self.heading, self.compared = self._result.heading, plain_label("", "muted", self._result)
        self.copy_button = CopyButton(appearance, "Copy as Markdown", self._markdown, self._result)
        self.delete_button = QPushButton("Delete", self._result)
        self.delete_button.setToolTip("Delete this result for good")
        self.table = plain_table(self._result, COLUMNS, "Result of a benchmark")
        self._kept = Section("Results", self.content)
        self.kept = plain_table(self._kept, KEPT_COLUMNS, "Results that are kept", words=(0, 1, 2, 4), wide=2)
        self.notes = plain_label("", "muted", self.content)
        self.context_panel = ContextPanel(contexts, self.content)
        self._arrange()
        self._connect()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Somebody looks."""
        super().showEvent(event)
        self.bench.look()
        self.context_panel.contexts.look(True)
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 (Qt's name)
        """Nobody looks any more."""
        super().hideEvent(event)
        self.context_panel.contexts.look(False)
        self.banner.hide()

    @Slot()
    def refresh(self) -> None:
        """Show what is known now."""
        if self.isHidden():
            return
        bench = self.bench
        is_idle = bench.phase == "idle"
        self.about.setText(f"{bench.plan.about(SIZES[bench.length])} {usual_words(bench.usual_seconds)}")
        self.usual.setText(f"Model: {bench.name_of(bench.plan.model)}. {MEANWHILE}")
        self.progress.setText(
            progress_words(bench.phase, bench.seconds, bench.usual_seconds, bench.said) if not is_idle else ""
        )
        self._show_share(bench.share, is_idle)
        self.run_button.setText(RUN if is_idle else STOP)
        self.run_button.setEnabled(bench.phase != "stopping")
        for part in (self.kinds, self.lengths, self.delete_button, self.context_panel):
            part.setEnabled(is_idle)
        self._show_result()
        self._show_kept()

    def _show_share(self, share: float | None, is_idle: bool) -> None:
        """How far it is; before it measures, only that something goes on."""
        self.bar.setVisible(not is_idle)
        self.bar.setRange(0, 0 if share is None else STEPS)
        if share is not None:
            self.bar.setValue(round(STEPS * share))

    def _show_result(self) -> None:
        shown = self.bench.shown
        self._result.setVisible(shown is not None)
        if shown is None:
            return
        before = earlier(shown, self.bench.kept)
        self.heading.setText(f"{title(shown)}, {self.bench.name_of(shown.model)}, {when(shown)}")
        self.compared.setText(compared_words(shown, before))
        fill(self.table, rows(shown, before), MOST_ROWS, grows=True)

    def _show_kept(self) -> None:
        kept = self.bench.kept
        said = notes(kept)
        self.notes.setText(text.sentence(said) if said else "" if kept.results else NONE_KEPT)
        self.notes.setVisible(bool(self.notes.text()))
        self._kept.setVisible(bool(kept.results))
        with QSignalBlocker(self.kept):
            fill(self.kept, kept_rows(kept, self.bench.name_of), MOST_KEPT)
            if self.bench.shown in kept.results:
                self.kept.selectRow(kept.results.index(self.bench.shown))

    def _markdown(self) -> str:
        shown = self.bench.shown
        if shown is None:
            return ""
        return markdown(shown, earlier(shown, self.bench.kept), self.bench.name_of(shown.model))

    @Slot()
    def _choose(self) -> None:
        kind: Kind = next(name for name in KINDS if self.kinds.button(name).isChecked())
        length: Length = next(name for name in LENGTHS if self.lengths.button(name).isChecked())
        self.bench.choose(kind, length)

    @Slot()
    def _start_or_stop(self) -> None:
        self.banner.hide()
        if self.bench.phase == "idle":
            self.bench.start()
        else:
            self.bench.stop()

    @Slot()
    def _pick(self) -> None:
        place = self.kept.currentRow()
        if 0 <= place < len(self.bench.kept.results):
            self.bench.show(self.bench.kept.results[place])

    @Slot()
    def _delete(self) -> None:
        if self.bench.shown is not None:
            self.bench.delete(self.bench.shown)

    @Slot(str)
    def _say_problem(self, words: str) -> None:
        self.banner.say(text.sentence(words))

    def _connect(self) -> None:
        self.bench.changed.connect(self.refresh)
        self.bench.failed.connect(self._say_problem)
        self.context_panel.contexts.failed.connect(self._say_problem)
        self.kinds.chosen.connect(self._choose)
        self.lengths.chosen.connect(self._choose)
        self.run_button.clicked.connect(self._start_or_stop)
        self.delete_button.clicked.connect(self._delete)
        self.kept.itemSelectionChanged.connect(self._pick)

    def _arrange(self) -> None:
        buttons = QHBoxLayout()
        buttons.addWidget(self.run_button)
        buttons.addWidget(self.progress, 1)
        for part in (self.kinds, self.lengths, self.about, self.usual):
            self._panel.column.addWidget(part)
        self._panel.column.addLayout(buttons)
        self.bar.setAccessibleName("How far the benchmark is")
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self._panel.column.addWidget(self.bar)
        self._result.head.addWidget(self.copy_button)
        self._result.head.addWidget(self.delete_button)
        self._result.column.addWidget(self.compared)
        self._result.column.addWidget(self.table)
        self._kept.column.addWidget(self.kept)
        for part in (self.banner, self._panel, self._result, self._kept, self.notes, self.context_panel):
            self.column.addWidget(part)
        self.column.addStretch(1)
