"""The kernels' panel: what runs, a check with all that may come of it, and the report."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.dashboard.cache_view_model import CacheViewModel
from app.dashboard.kernel_figures import choice_rows, launch_rows, launch_words, table_words
from app.dashboard.kernels_pane import KernelsPane
from app.dashboard.kernels_view_model import KernelsViewModel
from app.first_run.trials_view_model import TrialsViewModel
from app.models.background import Background
from app.profile_words import profile_rows, profile_words
from engine import (
    Command,
    EngineError,
    Failed,
    Finished,
    KernelCheck,
    KernelMachine,
    KernelOp,
    KernelsChosen,
    KernelTable,
    KernelTrials,
    ModelReady,
    ProfileStep,
    PutOffTrials,
    Stats,
    StepPart,
    StepProfile,
    StepProfiled,
    bare_name,
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


PROFILE = StepProfile(
    INFO.path,
    511,
    25,
    2e-3,
    3e-4,
    1e-5,
    (
        StepPart("project", "64→128", 4, {"matvec": 4}, 1e-4),
        StepPart("gated", "64→96", 4, {"mlx.Add": 4}, 3e-4),
    ),
    {"matvec": 4, "mlx.Add": 4},
)


class Stage:
    """The pane on a table and a check that a test writes."""

    def __init__(self, appearance: Appearance, qtbot: QtBot) -> None:
        self.asked: list[str] = []
        self.checks: Iterable[KernelCheck] = CHECKS
        self.problem = ""
        self.calls: list[object] = []
        self.engine = CacheViewModel(lambda command: None)
        self.engine.show(INFO.path)
        self.background = Background("mlxr-test-kernels", lambda call: self.calls.append(call) or None)
        self.commands: list[Command] = []
        self.kernels = KernelsViewModel(
            self.background, self.engine, lambda: TABLE, self.check, self.commands.append
        )
        self.trials = TrialsViewModel(self.commands.append)
        self.pane = KernelsPane(appearance, self.kernels, self.trials)
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
def stage(appearance: Appearance, qtbot: QtBot) -> Iterator[Stage]:
    stage = Stage(appearance, qtbot)
    yield stage
    assert stage.background.close(10)


def test_launches_add_up_to_those_of_a_token() -> None:
    assert launch_words(STATS) == "6 launches of our kernels and 3 of MLX’s operations for each token"
    assert launch_rows(STATS) == [("rope", "ours", "60", "6"), ("Add", "MLX", "30", "3")]
    assert (launch_rows(None), launch_words(None)) == ([], "Nothing was decoded yet")
    assert launch_words(replace(STATS, launches={})) == "Nothing was decoded yet"


def test_on_a_cpu_the_host_computes_the_parts_of_a_token() -> None:
    launches = {"host.add": 20, "host.logits": 10}
    stats = replace(
        STATS,
        launches=launches,
        own_launches_per_token=0.0,
        mlx_launches_per_token=0.0,
        host_parts_per_token=3.0,
    )
    assert launch_words(stats) == "The host computes each token in 3 parts"
    assert launch_rows(stats) == [("add", "host", "20", "2"), ("logits", "host", "10", "1")]


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
    is_stopped = threading.Event()

    def checks() -> Iterator[KernelCheck]:
        yield CHECKS[0]
        is_stopped.wait(60)
        yield from [CHECKS[0]] * 100

    stage.checks = checks()
    stage.kernels.start_check()
    stage.kernels.stop_check()
    is_stopped.set()
    stage.run()
    assert len(stage.kernels.checks) in (1, 2), "the one that ran is done"
    assert not stage.kernels.is_checking


def test_a_check_that_cannot_run_says_why(stage: Stage) -> None:
    stage.checks, stage.problem = [], "no GPU here"
    stage.pane.check_button.click()
    stage.run()
    assert stage.pane.banner.isVisible()
    assert not stage.kernels.is_checking


def test_the_report_has_all_of_it_and_no_folder(stage: Stage, tmp_path: Path) -> None:
    profile(stage)
    stage.engine.handle(STATS)
    stage.kernels.handle(StepProfiled("kernels-profile-1", PROFILE))
    stage.kernels.start_check()
    stage.run()
    stage.kernels.save(tmp_path / "report.md")
    words, values = (tmp_path / "report.md").read_text(), json.loads((tmp_path / "report.json").read_text())
    assert "somebody" not in words + json.dumps(values)
    assert "| decode_attention 32x64 float16 | split 4 | 21.5 µs |" in words
    assert "differs \\| by half" in words
    assert "| gated 64→96 | MLX: Add | 4 | 300.0 µs | 1.20 ms | 60 % |" in words
    assert values["profile"]["step"] == 2e-3
    assert [part["name"] for part in values["profile"]["parts"]] == ["project", "gated"]
    assert "layer 3 is not a kernel's" in words
    assert values["launches"] == STATS.launches
    assert [op["key"] for op in values["operations"]] == [op.key for op in TABLE.ops]
    assert [check["passed"] for check in values["checks"]] == [True, False]
    stage.kernels.save(tmp_path / "gone" / "report.md")
    assert "cannot be written" in _banner(stage)


def test_a_step_is_profiled_and_shown_until_other_kernels_run(stage: Stage) -> None:
    stage.engine.flush()
    assert not stage.pane.profile_button.isEnabled()
    assert not stage.pane.profile_table.isVisible()
    profile(stage)
    assert stage.commands == [ProfileStep("kernels-profile-1", INFO.path)]
    assert (stage.pane.profile_button.text(), stage.pane.profile_button.isEnabled()) == ("Measuring…", False)
    stage.kernels.handle(StepProfiled("another's", replace(PROFILE, step=9.0)))
    assert not stage.pane.profile_table.isVisible()
    stage.kernels.handle(StepProfiled("kernels-profile-1", PROFILE))
    assert shown(stage.pane) == profile_rows(PROFILE)
    assert stage.pane.profiled.text() == profile_words(PROFILE)
    assert stage.pane.profile_button.isEnabled()
    stage.engine.show("/another/model")
    stage.engine.flush()
    stage.qtbot.waitUntil(lambda: not stage.pane.profile_table.isVisible())
    stage.engine.show(INFO.path)
    stage.engine.flush()
    stage.qtbot.waitUntil(stage.pane.profile_table.isVisible)
    stage.kernels.handle(KernelsChosen(INFO))
    assert not stage.pane.profile_table.isVisible()


def test_trials_are_told_put_off_and_taken_up_again(stage: Stage) -> None:
    button = stage.pane.trials_button
    stage.pane.refresh()
    assert not button.isVisible()
    for is_running, are_put_off, says, does in (
        (True, False, "3 of 17 operations of this model were tried", "Put off trials"),
        (False, True, "the others are put off", "Try kernels"),
    ):
        stage.trials.handle(KernelTrials(INFO.path, 3, 17, is_running, are_put_off))
        stage.trials.flush()
        assert says in stage.pane.tried.text()
        assert button.isVisible()
        assert button.text() == does
        button.click()
        assert stage.commands[-1] == PutOffTrials(not are_put_off)
    stage.trials.handle(KernelTrials(INFO.path, 17, 17, is_running=False))
    stage.trials.flush()
    assert not button.isVisible()
    assert not stage.pane.tried.isVisible()


def test_a_profile_that_a_message_ends_says_so_and_the_last_one_stays(stage: Stage) -> None:
    profile(stage)
    stage.kernels.handle(StepProfiled("kernels-profile-1", PROFILE))
    stage.pane.profile_button.click()
    stage.kernels.handle(Failed("kernels-profile-2", "the profile was stopped", "EngineError"))
    assert "profile was stopped" in _banner(stage)
    assert stage.pane.profile_button.isEnabled()
    assert stage.pane.profile_table.isVisible()


def test_the_real_engine_s_step_is_profiled_at_a_click(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    watched = Watched(open_desktop, qtbot, tmp_path)
    watched.say("What is a page?")
    watched.settle()
    watched.look("Kernels")
    (pane,) = watched.page.findChildren(KernelsPane)
    watched.wait(pane.profile_button.isEnabled)
    pane.profile_button.click()
    watched.wait(pane.profile_table.isVisible)
    told = next(event for event in watched.events if isinstance(event, StepProfiled))
    assert shown(pane) == profile_rows(told.profile)
    assert watched.say("And a token?")  # the engine goes on


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
    assert shown == Counter({bare_name(name): count for name, count in end.launches.items()})


def profile(stage: Stage) -> None:
    """The model is in memory, and its profile is asked for."""
    stage.engine.handle(ModelReady("", INFO))
    stage.engine.flush()
    stage.qtbot.waitUntil(stage.pane.profile_button.isEnabled)
    stage.pane.profile_button.click()


def shown(pane: KernelsPane) -> list[tuple[str, ...]]:
    """The rows of the profile on show."""
    table = pane.profile_table
    return [
        tuple(table.item(row, column).text() for column in range(table.columnCount()))
        for row in range(table.rowCount())
    ]


def _banner(stage: Stage) -> str:
    return " ".join(label.text() for label in stage.pane.banner.findChildren(type(stage.pane.runs)))
