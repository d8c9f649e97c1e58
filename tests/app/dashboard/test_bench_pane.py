"""The benchmark's pane on real children: a run that is kept, one that is stopped, one that fails."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.bridge import FrameQueue
from app.dashboard import bench_child
from app.dashboard.bench_context_view_model import ContextViewModel
from app.dashboard.bench_pane import STEPS, BenchPane
from app.dashboard.bench_plans import Sizes
from app.dashboard.bench_results import read_kept
from app.dashboard.bench_view_model import AT_ONCE, BenchViewModel
from app.model_location import GUIDE
from app.models.background import Background
from app.models.models_view_model import ModelsViewModel
from app.paths import Paths
from engine import Command, LetRest, LoadModel, ModelReady, ModelUnloaded
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.watched import Watched
from tests.app.test_screenshots import save
from tests.fakes.scripted_engine import model_info

SMALLEST = Sizes((16,), (1,), 64, 3, 4)
HUGE = Sizes((16,), (1,), 64, 1_000_000, 64)
PATIENCE = 60_000


class Stage:
    """The pane in a data home of its own, with models that a test lets come and go."""

    def __init__(self, appearance: Appearance, qtbot: QtBot, home: Path) -> None:
        self.submitted: list[Command] = []
        self.queue = FrameQueue()
        self.models = ModelsViewModel(self.submitted.append, GUIDE)
        self.paths = Paths(home)
        background = Background("mlxr-test-bench", self.queue.post)
        self.bench = BenchViewModel(background, self.models, self.submitted.append, lambda: 60.0, self.paths)
        self.looking = Background("mlxr-test-context", self.queue.post)
        self.contexts = ContextViewModel(self.looking, self.models, self.paths)
        self.pane = BenchPane(appearance, self.bench, self.contexts)
        self.qtbot = qtbot
        qtbot.addWidget(self.pane)
        self.pane.resize(900, 700)
        self.pane.show()

    def load(self) -> None:
        """The guide is in memory."""
        self.models.open(str(GUIDE))
        load = next(command for command in self.submitted if isinstance(command, LoadModel))
        self.models.handle(ModelReady(load.id, model_info(str(GUIDE))))

    def rest(self) -> None:
        """It leaves memory."""
        self.models.handle(ModelUnloaded(str(GUIDE), "idle"))

    def wait_for(self, phase: str) -> None:
        self.qtbot.waitUntil(lambda: self.bench.phase == phase, timeout=PATIENCE)

    @property
    def rests(self) -> list[float | None]:
        """How soon models were let go, as it was asked for."""
        return [command.after for command in self.submitted if isinstance(command, LetRest)]


@pytest.fixture
def stage(
    appearance: Appearance, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr("app.dashboard.bench_view_model.SIZES", {"short": SMALLEST, "long": HUGE})
    stage = Stage(appearance, qtbot, tmp_path / "home")
    yield stage
    assert stage.bench.close()
    assert stage.contexts.close(PATIENCE / 1000)  # in C++ when Python ends, it aborts the process
    stage.queue.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_benchmark_waits_for_the_model_to_rest_runs_and_is_kept(stage: Stage) -> None:
    stage.load()
    stage.pane.run_button.click()
    assert (stage.bench.phase, stage.rests) == ("waiting", [AT_ONCE])
    assert stage.pane.progress.text().startswith("Waiting")
    assert (stage.pane.bar.isVisible(), stage.pane.bar.maximum()) == (True, 0), "nobody knows how long"
    stage.rest()
    assert stage.bench.phase == "running"
    assert stage.pane.run_button.text() == "Stop"
    shares: set[int] = set()
    stage.bench.changed.connect(lambda: shares.add(stage.pane.bar.value() if stage.bench.share else 0))
    stage.wait_for("idle")
    assert stage.pane.bar.isHidden()
    assert all(0 <= share < STEPS for share in shares)
    assert stage.rests == [AT_ONCE, 60.0]
    (path,) = stage.paths.benchmarks.iterdir()
    written = json.loads(path.read_text())
    (measured,) = written["report"]["rows"]
    cells = [stage.pane.table.item(0, column).text() for column in range(3)]
    assert cells[0] == "Decode at 16 tokens"
    number, unit = cells[1].split(" ")
    assert unit == "tok/s"
    assert float(number.replace(",", "")) == pytest.approx(measured["median"], rel=0.005)
    assert len(measured["samples"]) == SMALLEST.pairs
    assert stage.pane.kept.rowCount() == 1
    stage.pane.copy_button.click()
    assert f"| Decode at 16 tokens | {cells[1]} |" in QGuiApplication.clipboard().text()
    stage.pane.delete_button.click()
    stage.qtbot.waitUntil(lambda: not stage.bench.kept.results, timeout=PATIENCE)
    assert list(stage.paths.benchmarks.iterdir()) == []
    assert stage.pane.notes.text() == "No benchmark was run yet."


def test_a_benchmark_that_is_stopped_leaves_nothing(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_child, "PATIENCE", PATIENCE / 1000)  # a busy machine is slow at tidying up
    signals, send = list[tuple[int, int | None]](), bench_child._signal

    def noted(process: subprocess.Popen[str], number: int) -> None:
        signals.append((number, process.poll()))
        send(process, number)

    monkeypatch.setattr(bench_child, "_signal", noted)
    stage.pane.lengths.button("long").click()
    stage.pane.run_button.click()
    # Of two lines that come together only the later is shown: any number after the first will do.
    stage.qtbot.waitUntil(
        lambda: (said := re.search(r"pair (\d+) of", stage.bench.said)) is not None and int(said[1]) > 1,
        timeout=PATIENCE,
    )
    assert _children(), "the benchmark is a process of its own"
    stage.pane.run_button.click()
    assert (stage.bench.phase, stage.pane.run_button.isEnabled()) == ("stopping", False)
    stage.wait_for("idle")
    (asked, _), (_, code) = signals
    assert asked == signal.SIGINT
    assert code is not None, "it tidied up by itself, and what was killed then had ended"
    assert _children() == []
    assert list((tmp_path / "scratch").iterdir()) == []
    assert read_kept(stage.paths.benchmarks).results == ()
    assert stage.pane.banner.isHidden()
    assert stage.rests == [AT_ONCE, 60.0]


def test_a_chat_meanwhile_is_told_and_spoils_the_figures(stage: Stage) -> None:
    stage.pane.run_button.click()
    stage.load()
    stage.wait_for("idle")
    assert stage.bench.shown is not None
    assert stage.bench.shown.is_disturbed
    assert stage.pane.compared.text().startswith("A chat went on meanwhile")


def test_a_child_that_fails_says_why_in_a_line(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    none = Sizes((0,), (1,), 64, 3, 4)
    monkeypatch.setattr("app.dashboard.bench_view_model.SIZES", {"short": none})
    stage.pane.run_button.click()
    stage.wait_for("idle")
    assert stage.pane.banner.isVisible()
    assert stage.pane.banner.text.startswith("The benchmark failed: ")
    assert "--contexts" in stage.pane.banner.text
    assert "\n" not in stage.pane.banner.text
    assert stage.rests == [AT_ONCE, 60.0]


def test_one_that_waits_is_given_up(stage: Stage) -> None:
    stage.load()
    stage.pane.run_button.click()
    stage.pane.run_button.click()
    assert (stage.bench.phase, stage.rests) == ("idle", [AT_ONCE, 60.0])
    stage.rest()
    assert stage.bench.phase == "idle"


@pytest.mark.long
@pytest.mark.parametrize("look", ["light", "dark"])
def test_pictures_of_a_run_in_the_window_and_what_came_of_it(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, look: str
) -> None:
    watched = Watched(open_desktop, qtbot, tmp_path)
    desktop = watched.desktop
    desktop.appearance.choose("light" if look == "light" else "dark")
    watched.look("Benchmark")
    (pane,) = watched.page.findChildren(BenchPane)

    def pictures(of: str) -> None:
        for size in ((1080, 720), (720, 520)):
            desktop.window.resize(*size)
            save(desktop, f"{look}-dashboard-benchmark-{of}-{size[0]}")

    watched.wait(lambda: pane.context_panel.isVisible())
    pictures("first")
    for kind in ("decode", "batches", "batches"):
        pane.kinds.button(kind).click()
        pane.run_button.click()
        watched.wait(lambda: "pair" in pane.bench.said)
        assert desktop.models.state.phase == "resting", "the engine has let it go"
        if kind == "batches":
            pictures("running")
        watched.wait(lambda: pane.bench.phase == "idle")
    assert len(pane.bench.kept.results) == 3
    pictures("done")
    bar = pane.verticalScrollBar()
    bar.setValue(bar.maximum())
    pictures("context")
    watched.say("What is a page?")  # it comes back, and stays
    assert desktop.models.state.phase == "ready"


def _children() -> list[int]:
    """Processes of sessions that this one began, whose parent it is."""
    found: list[int] = []
    for entry in Path("/proc").iterdir() if Path("/proc").exists() else ():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[1]) == os.getpid() and words[0] != "Z":
                found.append(int(entry.name))
    return found
