"""What sizes of slices add to steps: by the median of enough steps of late."""

from __future__ import annotations

import pytest

from engine.pacing.slice_costs import FEW, SliceCosts


def measured(at: int, seconds: list[float], first: int = 1) -> SliceCosts:
    costs = SliceCosts()
    for step, added in enumerate(seconds, first):
        costs.add(at, step, added)
    return costs


def test_nothing_is_said_of_few_steps_and_a_slow_one_among_enough_says_nothing() -> None:
    costs = measured(2, [0.1] * (FEW - 1))
    assert (costs.of_late(2, FEW), costs.typical(2), costs.all_of_late(FEW)) == (None, None, {})
    costs.add(2, FEW, 9.0)
    assert (costs.of_late(2, FEW), costs.typical(2), costs.all_of_late(FEW)) == (0.1, 0.1, {2: 0.1})


def test_a_size_is_judged_by_its_latest_steps() -> None:
    costs = measured(2, [0.1] * 20)
    for step in range(21, 29):  # more than half of those that are kept
        costs.add(2, step, 0.3)
    assert costs.of_late(2, 29) == pytest.approx(0.3)


def test_what_was_measured_long_ago_is_typical_and_says_nothing_of_now() -> None:
    costs = measured(2, [0.1] * FEW)
    assert costs.of_late(2, 61) == 0.1
    assert costs.of_late(2, 62) is None  # the first of them is too old to count
    assert costs.typical(2) == 0.1


def test_the_next_smaller_size_that_was_measured_stands_for_those_between() -> None:
    costs = measured(2, [0.1] * FEW)
    costs.add(4, 9, 0.5)
    assert [costs.typical_below(at) for at in (1, 2, 3, 5)] == [None, 0.1, 0.1, 0.1]
    assert [measured(0, [0.2] * FEW).typical_below(at) for at in (0, 1)] == [0.2, 0.2]


def test_the_thickest_is_one_that_was_measured() -> None:
    costs = SliceCosts()
    assert costs.thickest == -1
    assert costs.of_late(7, 1) is None
    assert costs.thickest == -1
    costs.add(3, 1, 0.1)
    assert costs.thickest == 3
