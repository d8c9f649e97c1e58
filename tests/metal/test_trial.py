"""Trials in real processes: candidates that abort, hang, do not compile, disagree, and what is said."""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from metal import trial_runner
from metal.trial_case import CaseSpec
from metal.trial_messages import Line, Task, Work, encode
from metal.trial_runner import Checked, Dropped, Outcome, Timed, TrialError, TrialRunner
from tests.metal.trial_provider import CLOCKED, HERE, LONG, NOTED, over_at, spec

Verdicts = dict[str, tuple[str, str]]


@pytest.fixture
def runner(tmp_path: Path) -> TrialRunner:
    return TrialRunner("emulated", tmp_path, limit_s=LONG, command=CLOCKED)


def verdicts(runner: TrialRunner, *names: str, log: Path | None = None) -> tuple[Verdicts, list[Outcome]]:
    """Status and reason of each candidate that was checked, the last word if there are two; and the ends."""
    outcomes = list(runner.run([Task(spec(*names, log=log), ("mlx", *names))]))
    checked = {one.candidate: (str(one.status), one.reason) for one in outcomes if isinstance(one, Checked)}
    return checked, [one for one in outcomes if not isinstance(one, Checked)]


def test_each_fate_is_told_and_the_others_are_still_tried(runner: TrialRunner) -> None:
    fates = {
        "aborts": ("died", "ended by signal 6 (abort)"),
        "does not compile": ("does not compile", "does not compile: g++ refused the text:"),
        "unsupported": ("unsupported", "a head size of 7; kernels take 64"),
        "wrong": ("disagrees", "disagrees: error 0.15 > 1e-05"),
        "nan": ("disagrees", "disagrees: its results hold NaN"),
        "raises": ("died", "raised RuntimeError: CUDA error: an illegal memory access was encountered"),
        "strays": ("died", "ended by signal 11 (a stray access)"),
        "aborts later": ("died", "ended by signal 6 (abort) while it was timed"),
        "fast": ("", ""),
    }
    checked, ends = verdicts(runner, *fates)
    assert checked == {"mlx": ("", ""), **fates}
    (timed,) = ends
    assert isinstance(timed, Timed)
    assert set(timed.times) == {"mlx", "fast"}
    assert timed.times == pytest.approx({"mlx": 3000, "fast": 20})


@pytest.mark.parametrize("name", ["sleeps", "spins"])
def test_a_candidate_that_hangs_is_ended(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    over_at(monkeypatch, log, name)
    checked, ends = verdicts(TrialRunner("emulated", tmp_path, limit_s=LONG), name, "fast", log=log)
    assert checked[name] == ("hangs", f"did not finish within {LONG:g} s")
    assert checked["fast"] == ("", "")
    assert isinstance(ends[0], Timed)


def test_what_was_said_in_time_counts_however_late_one_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLXR itself may stand still for longer than a candidate may take."""
    says = f"import os; os.write(1, {encode(Line('ready')).encode()!r}); input()"
    work, nothing = Work("emulated", str(tmp_path), LONG, ()), (lambda: False,) * 2
    with trial_runner._Child((sys.executable, "-c", says), work, LONG, *nothing) as child:
        assert select.select([child._process.stdout], [], [], 60)[0]
        monkeypatch.setattr("metal.trial_runner.monotonic", itertools.count(0.0, 2 * LONG).__next__)
        line = child._next(LONG)
    assert line == Line("ready")


def test_who_waits_has_something_else_to_do_but_not_while_something_is_timed(
    runner: TrialRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NOTED, str(tmp_path / "noted"))
    done: list[tuple[float, float]] = []

    def meanwhile() -> bool:
        began = time.monotonic()
        time.sleep(0.005)
        done.append((began, time.monotonic()))
        return True

    list(runner.run([Task(spec("noted"), ("mlx", "noted"))], meanwhile=meanwhile))
    runs = [tuple(map(float, line.split())) for line in (tmp_path / "noted").read_text().splitlines()]
    assert len(runs) > 3
    assert len(done) > 3
    timed = runs[1:]  # the first one showed whether it is right
    assert not [run for run in timed for other in done if run[0] < other[1] and other[0] < run[1]]
    assert [other for other in done if timed[0][0] < other[0] < timed[-1][0]], "between two chains"


def test_nobody_runs_before_he_is_written_down(runner: TrialRunner, tmp_path: Path) -> None:
    log, seen = tmp_path / "log", []

    def before(index: int, name: str) -> None:
        seen.append((index, name, log.read_text().split("\n")[:-1] if log.exists() else []))

    tasks = [
        Task(spec("aborts", key="a", log=log), ("mlx", "aborts"), is_timed=False),
        Task(spec("fast", key="b", log=log), ("mlx", "fast"), is_timed=False),
    ]
    list(runner.run(tasks, before=before))
    assert seen == [
        (0, "mlx", []),
        (0, "aborts", ["mlx"]),
        (1, "mlx", ["mlx", "aborts"]),
        (1, "fast", ["mlx", "aborts", "mlx"]),
    ]


def test_what_agreed_before_a_death_is_not_checked_again(runner: TrialRunner, tmp_path: Path) -> None:
    log = tmp_path / "log"
    names = ("fast", "aborts", "slow")
    list(runner.run([Task(spec(*names, log=log), ("mlx", *names), is_timed=False)]))
    assert log.read_text().split() == ["mlx", "fast", "aborts", "slow"]


def test_a_case_that_cannot_be_built_is_dropped_and_the_next_one_tried(runner: TrialRunner) -> None:
    tasks = [
        Task(CaseSpec(HERE, "impossible"), ("mlx",)),
        Task(CaseSpec(HERE, "deadly"), ("mlx",)),
        Task(spec("fast"), ("mlx", "fast"), is_timed=False),
    ]
    assert list(runner.run(tasks)) == [
        Dropped(0, "there is no such shape"),
        Dropped(1, "ended by signal 6 (abort)"),
        Checked(2, "mlx", "", "", 0.0),
        Checked(2, "fast", "", "", 0.0),
    ]


@pytest.mark.parametrize(
    ("words", "start_s", "says"),
    [
        ("raise SystemExit('no MLX here')", 60, "did not start: .*code 1: no MLX here"),
        ("print('hello')", 60, "makes no sense: b'hello'"),
        ("import time; time.sleep(60)", 0.5, "did not start: did not finish within"),
    ],
)
def test_a_process_that_does_not_start_is_an_error(
    tmp_path: Path, words: str, start_s: float, says: str
) -> None:
    runner = TrialRunner("emulated", tmp_path, command=(sys.executable, "-c", words), start_s=start_s)
    with pytest.raises(TrialError, match=says):
        list(runner.run([Task(spec("fast"), ("fast",))]))


def test_a_folder_of_that_name_where_we_stand_is_not_run(
    runner: TrialRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metal").mkdir()
    (tmp_path / "metal" / "__init__.py").write_text("raise SystemExit('a stranger')")
    monkeypatch.chdir(tmp_path)
    checked, _ = verdicts(runner, "fast")
    assert checked["fast"] == ("", "")


def test_stop_ends_the_trial_in_the_middle_of_a_launch(runner: TrialRunner, tmp_path: Path) -> None:
    log = tmp_path / "log"
    outcomes = list(runner.run([Task(spec("sleeps", log=log), ("sleeps",))], stop=log.exists))
    assert outcomes == []


def test_an_orphan_that_hangs_ends_by_itself(tmp_path: Path) -> None:
    work = Work("emulated", str(tmp_path), LONG, (Task(spec("spins late"), ("spins late",)),))
    command = [sys.executable, "-m", "metal.trial", "--provider", HERE]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=os.environ, text=True) as process:
        output, _ = process.communicate(work.encode() + "go\n", timeout=60)
    assert process.returncode == -signal.SIGALRM
    assert '"spins late"' in output.splitlines()[-1]
