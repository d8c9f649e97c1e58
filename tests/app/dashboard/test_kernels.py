"""The kernels' panel: what runs, a check with all that may come of it, and the report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.dashboard.cache_view_model import CacheViewModel
from app.dashboard.kernel_figures import choice_rows, launch_rows, launch_words, table_words
from app.dashboard.kernels_pane import KernelsPane
from app.dashboard.kernels_view_model import KernelsViewModel
from app.models.background import Background
from engine import (
    EngineError,
    Finished,
    KernelCheck,
    KernelMachine,
    KernelOp,
    KernelTable,
    ModelReady,
    Stats,
)
from metal.trial_record import CandidateRecord
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.watched import Watched
from tests.fakes.scripted_engine import model_info

MACHINE = KernelMachine("metal", "faster here", "Apple M4, 16 GB, macOS 15", "0.32.4")
TABLE = KernelTable(
    MACHINE,
    (
        KernelOp(
            "decode_attention 32x64 float16",
            "split 4",
            (
                CandidateRecord("mlx", "", "slower", None, 41.25, "1.9x the time"),
                CandidateRecord("split 4", "ab", "chosen", 4e-4, 21.5),
                CandidateRecord("split 8", "cd", "disagrees", 0.3, None, "differs by 0.3"),
            ),
        ),
        KernelOp("norm 2048 float16", "mlx", (CandidateRecord("mlx", "", "chosen", None, 3.0),)),
    ),
)
INFO = replace(model_info("/home/somebody/models/tiny"), kernel_notes=("layer 3 is not a kernel's",))
STATS = Stats(
    "", 0, 0, 0.0, 0.0, 0, 512, 0, 0, launches={"mlx.Add": 30, "rope": 60, "mlx.None": 0},
    own_launches_per_token=6.0, mlx_launches_per_token=3.0, model=INFO.path,
)  # fmt: skip
CHECKS = (
    KernelCheck("norm 64", "simd", 1e-4, 2e-3, True, ""),
    KernelCheck("rope 64", "pairs", 0.5, 2e-3, False, "differs | by half"),
)


class Stage:
    """The pane on a table and a check that a test writes."""

    def __init__(self, appearance: Appearance, qtbot: QtBot) -> None:
        self.asked: list[str] = []
        self.checks: list[KernelCheck] = list(CHECKS)
        self.problem = ""
        self.calls: list[object] = []
        self.engine = CacheViewModel(lambda command: None)
        self.engine.show(INFO.path)
        self.background = Background("mlxr-test-kernels", lambda call: self.calls.append(call) or None)
        self.kernels = KernelsViewModel(self.background, self.engine, lambda: TABLE, self.check)
        self.pane = KernelsPane(appearance, self.kernels)
        self.qtbot = qtbot
        qtbot.addWidget(self.pane)
        self.pane.resize(900, 700)
        self.pane.show()

    def check(self) -> Iterator[KernelCheck]:
        yield from self.checks
        if self.problem:
            raise EngineError(self.problem)

    def run(self) -> None:
        """All that was asked in the background comes back."""
        assert self.background.close(10)
        while self.calls:
            call = self.calls.pop(0)
            assert callable(call)
            call()


@pytest.fixture
def stage(appearance: Appearance, qtbot: QtBot) -> Stage:
    return Stage(appearance, qtbot)


def test_launches_add_up_to_those_of_a_token() -> None:
    assert launch_words(STATS) == "6 launches of our kernels and 3 of MLX’s operations for each token"
    assert launch_rows(STATS) == [("rope", "ours", "60", "6"), ("Add", "MLX", "30", "3")]
    assert (launch_rows(None), launch_words(None)) == ([], "Nothing was decoded yet")
    assert launch_words(replace(STATS, launches={})) == "Nothing was decoded yet"


def test_what_is_chosen_and_what_became_of_the_others() -> None:
    assert choice_rows(TABLE)[0] == (
        "decode_attention 32x64 float16",
        "split 4",
        "21.5 µs",
        "4.0e-04",
        "mlx: 1.9x the time (41.2 µs); split 8: differs by 0.3",
    )
    assert "1 kernel does not work here" in table_words(TABLE)


def test_a_check_that_finds_something(stage: Stage) -> None:
    stage.pane.check_button.click()
    assert stage.pane.check_button.text() == "Stop"
    stage.run()
    assert stage.kernels.checks == list(CHECKS)
    assert stage.pane.checked.text() == "1 of 2 agree with the reference; wrong: rope"
    assert stage.pane.check_button.text() == "Check kernels"


def test_a_check_is_stopped(stage: Stage) -> None:
    stage.checks = [CHECKS[0]] * 1000
    stage.kernels.start_check()
    stage.kernels.stop_check()
    stage.run()
    assert len(stage.kernels.checks) < 1000
    assert not stage.kernels.is_checking


def test_a_check_that_cannot_run_says_why(stage: Stage) -> None:
    stage.checks, stage.problem = [], "no GPU here"
    stage.pane.check_button.click()
    stage.run()
    assert stage.pane.banner.isVisible()
    assert not stage.kernels.is_checking


def test_the_report_has_all_of_it_and_no_folder(stage: Stage, tmp_path: Path) -> None:
    stage.engine.handle(ModelReady("", INFO))
    stage.engine.handle(STATS)
    stage.kernels.start_check()
    stage.run()
    stage.kernels.save(tmp_path / "report.md")
    words, values = (tmp_path / "report.md").read_text(), json.loads((tmp_path / "report.json").read_text())
    assert "somebody" not in words + json.dumps(values)
    assert "| decode_attention 32x64 float16 | split 4 | 21.5 µs |" in words
    assert "differs \\| by half" in words
    assert "layer 3 is not a kernel's" in words
    assert values["launches"] == STATS.launches
    assert [op["key"] for op in values["operations"]] == [op.key for op in TABLE.ops]
    assert [check["passed"] for check in values["checks"]] == [True, False]
    stage.kernels.save(tmp_path / "gone" / "report.md")
    assert "cannot be written" in _banner(stage)


def test_with_the_real_engine_it_says_what_runs_here(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    watched = Watched(open_desktop, qtbot, tmp_path)
    watched.say("What is a page?")
    watched.settle()
    watched.look("Kernels")
    (pane,) = watched.page.findChildren(KernelsPane)
    end = next(event for event in watched.events if isinstance(event, Finished))
    ready = next(event for event in watched.events if isinstance(event, ModelReady))
    watched.wait(lambda: pane.choices.text() != "")
    assert pane.runs.text().startswith(f"{ready.model.executor} on {ready.model.device}")
    shown = Counter(
        {
            pane.launch_table.item(row, 0).text(): int(pane.launch_table.item(row, 2).text().replace(",", ""))
            for row in range(pane.launch_table.rowCount())
        }
    )
    assert shown == Counter({name.removeprefix("mlx."): count for name, count in end.launches.items()})


def _banner(stage: Stage) -> str:
    return " ".join(label.text() for label in stage.pane.banner.findChildren(type(stage.pane.runs)))
