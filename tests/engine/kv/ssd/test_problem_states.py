"""When a write is tried again, and what makes a problem of the SSD cache one no longer, by the clock."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.kv.ssd.problem import AGAIN_S, LONG_S, SsdProblem


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("engine.kv.ssd.problem.time", SimpleNamespace(monotonic=made.monotonic))
    return made


@pytest.fixture
def problem(tmp_path: Path) -> SsdProblem:
    return SsdProblem(tmp_path)


BROKEN = OSError(errno.EIO, "broken")


def test_who_is_held_up_for_a_moment_tries_at_once_but_where_there_was_a_problem(
    problem: SsdProblem, clock: Clock
) -> None:
    problem.was_held()
    assert (problem.reason, problem.may_try) == ("", True)
    problem.failed(BROKEN)
    assert not problem.may_try
    clock.now += AGAIN_S
    assert problem.may_try
    problem.was_held()
    assert not problem.may_try
    clock.now += AGAIN_S
    assert problem.may_try


def test_a_folder_that_could_be_written_or_not_between_two_holds_was_not_held_for_long(
    problem: SsdProblem, clock: Clock
) -> None:
    for between in (lambda: problem.went_well(True), lambda: problem.failed(BROKEN)):
        problem.was_held()
        between()
        before = problem.reason
        clock.now += LONG_S
        problem.was_held()
        assert problem.reason == before
    clock.now += LONG_S
    problem.was_held()
    assert "for long" in problem.reason


def test_what_needed_no_write_ends_a_hold_and_no_other_problem(problem: SsdProblem, clock: Clock) -> None:
    for _ in range(2):
        problem.was_held()
        clock.now += LONG_S
        problem.was_held()
        assert "for long" in problem.reason
        problem.went_well(False)
        assert problem.reason == ""
        problem.failed(BROKEN)
        problem.went_well(False)
        assert "broken" in problem.reason
        problem.went_well(True)
        assert problem.reason == ""


def test_after_a_mistake_of_ours_none_is_tried_any_more(problem: SsdProblem, clock: Clock) -> None:
    problem.broke(ValueError("ours"))
    assert "ours" in problem.reason
    clock.now += 1e9
    assert not problem.may_try
