"""The agreement suite: what it runs, and that a kernel that is wrong or dies fails it alone."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import mlx.core as mx
import pytest

from metal.agreement import SUITE, processes_at_once, run_suite, shares
from metal.candidates import CASES
from metal.trial_case import CaseSpec
from metal.trial_runner import TrialError, TrialRunner
from metal.trial_scope import ExecutorName, open_executor
from tests.metal import trial_provider
from tests.metal.trial_provider import spec


def reasons(folder: Path, specs: list[CaseSpec], processes: int = 1) -> Counter[tuple[str, str, str]]:
    """How often each check was told: key, candidate and reason, which is "" for what passed."""
    executor = open_executor("emulated", folder)
    runner = TrialRunner("emulated", folder)
    checks = run_suite(runner, executor, specs, trial_provider.CASES, processes=processes)
    return Counter((check.key, check.candidate, check.reason) for check in checks)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_kernel_that_is_wrong_or_dies_fails_alone(tmp_path: Path, processes: int) -> None:
    names = {"a": ["fast", "wrong"], "b": ["aborts", "fast"], "c": ["as fast"], "d": ["fast"]}
    specs = [spec(*of, key=key) for key, of in names.items()]
    assert reasons(tmp_path, specs, processes) == {
        ("a", "fast", ""): 1,
        ("a", "wrong", "disagrees: error 0.15 > 1e-05"): 1,
        ("b", "aborts", "ended by signal 6 (abort)"): 1,
        ("b", "fast", ""): 1,
        ("c", "as fast", ""): 1,
        ("d", "fast", ""): 1,
    }


def test_a_lack_of_memory_fails_what_was_not_yet_told(tmp_path: Path) -> None:
    short = "ended by signal 9 (killed)"
    assert reasons(tmp_path, [spec("fast", "killed", "slow", key="a")]) == {
        ("a", "fast", ""): 1,
        ("a", "killed", short): 1,
        ("a", "slow", short): 1,
    }


@pytest.mark.parametrize("processes", [1, 3, 4, 200])
def test_shares_have_every_case_once(processes: int) -> None:
    dealt = shares(len(SUITE), processes)
    assert sorted(at for share in dealt for at in share) == list(range(len(SUITE)))
    assert len(dealt) == min(processes, len(SUITE))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@pytest.mark.parametrize(
    ("executor", "cores", "processes"),
    [("cuda", 16, 4), ("cuda", 6, 3), ("emulated", 2, 1), ("emulated", 1, 1), ("metal", 16, 1)],
)
def test_processes_leave_cores_to_others(executor: ExecutorName, cores: int, processes: int) -> None:
    assert processes_at_once(executor, cores) == processes


def test_one_share_that_cannot_start_ends_the_check(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no MLX here')")
    checks = run_suite(
        TrialRunner("emulated", tmp_path, command=command),
        open_executor("emulated", tmp_path),
        [spec("fast", key=key) for key in "ab"],
        trial_provider.CASES,
        processes=2,
    )
    with pytest.raises(TrialError, match="no MLX here"):
        list(checks)


def test_who_stops_reading_ends_all_shares(tmp_path: Path) -> None:
    checks = run_suite(
        TrialRunner("emulated", tmp_path),
        open_executor("emulated", tmp_path),
        [spec("fast", key="a"), spec("sleeps", key="b")],
        trial_provider.CASES,
        processes=2,
    )
    assert next(checks).key == "a"
    began = time.monotonic()
    checks.close()
    assert time.monotonic() - began < 10


def test_keys_name_their_cases_apart() -> None:
    executor = open_executor("emulated", Path())
    cases = [CASES[one.op](one.params, executor) for one in SUITE]
    assert len({case.key for case in cases}) == len(cases)


def test_every_op_is_in_the_suite() -> None:
    assert {one.op for one in SUITE} == set(CASES)


@pytest.mark.long
def test_the_suite_passes_on_the_emulator(kernel_cache: Path) -> None:
    check_suite("emulated", kernel_cache)


@pytest.mark.parametrize("name", ["cuda", "metal"])
def test_the_suite_passes_on_the_gpu(name: ExecutorName, tmp_path: Path) -> None:
    if not {"cuda": mx.cuda, "metal": mx.metal}[name].is_available():
        pytest.skip("needs that GPU")
    check_suite(name, tmp_path)


def check_suite(name: ExecutorName, folder: Path) -> None:
    executor, processes = open_executor(name, folder), processes_at_once(name)
    checks = list(run_suite(TrialRunner(name, folder), executor, processes=processes))
    assert len(checks) >= len(SUITE)
    assert [check for check in checks if not check.has_passed] == []
