"""The agreement suite: what it runs, and that a kernel that is wrong or dies fails it alone."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from metal.agreement import SUITE, run_suite
from metal.candidates import CASES
from metal.trial_case import CaseSpec
from metal.trial_runner import TrialRunner
from metal.trial_scope import ExecutorName, open_executor
from tests.metal import trial_provider
from tests.metal.trial_provider import spec


def passed(folder: Path, specs: list[CaseSpec]) -> dict[tuple[str, str], str]:
    """The reason of each failure, "" for what passed."""
    executor = open_executor("emulated", folder)
    runner = TrialRunner("emulated", folder)
    checks = run_suite(runner, executor, specs, trial_provider.CASES)
    return {(check.key, check.candidate): check.reason for check in checks}


def test_a_kernel_that_is_wrong_or_dies_fails_alone(tmp_path: Path) -> None:
    assert passed(tmp_path, [spec("fast", "wrong", key="a"), spec("aborts", "fast", key="b")]) == {
        ("a", "fast"): "",
        ("a", "wrong"): "disagrees: error 0.15 > 1e-05",
        ("b", "aborts"): "ended by signal 6 (abort)",
        ("b", "fast"): "",
    }


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
    checks = list(run_suite(TrialRunner(name, folder), open_executor(name, folder)))
    assert len(checks) >= len(SUITE)
    assert [check for check in checks if not check.has_passed] == []
