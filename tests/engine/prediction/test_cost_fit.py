"""Costs come out of measurements: exactly of good ones, and hardly worse with some bad ones among them."""

from __future__ import annotations

import math
import random

import pytest

from engine.prediction.cost_fit import CostFit, Features

COSTS = (0.004, 0.0002, 6e-8)


def took(features: Features) -> float:
    return sum(cost * value for cost, value in zip(COSTS, features, strict=True))


def work(draw: random.Random) -> Features:
    tokens = float(int(2000 ** draw.random()))
    return 1.0, tokens, tokens * draw.randrange(8000)


@pytest.mark.parametrize("bad", [0.0, 0.1])
def test_costs_are_found_and_what_does_not_fit_loses_its_weight(bad: float) -> None:
    draw, fit = random.Random(1), CostFit()
    for _ in range(80):
        features = work(draw)
        fit.add(features, took(features) * (20 if draw.random() < bad else 1))
    for features in ((1.0, 30.0, 900.0), (1.0, 1500.0, 6e6)):
        assert fit.seconds(features) == pytest.approx(took(features), rel=0.02 if bad else 1e-6)


def test_no_cost_is_negative() -> None:
    """The second feature comes with shorter times: of a free choice it would get a negative cost."""
    fit = CostFit()
    for value in range(1, 9):
        fit.add((1.0, float(value)), 1 - value / 20)
    shortest = fit.seconds((1.0, 1000.0))
    assert shortest is not None
    assert shortest == fit.seconds((1.0, 0.0))
    assert 0.6 <= shortest <= 0.95


@pytest.mark.parametrize("fewest", [1, 3])
def test_nothing_is_said_of_too_few_measurements(fewest: int) -> None:
    fit = CostFit(fewest=fewest)
    for _ in range(fewest):
        assert fit.seconds((1.0,)) is None
        fit.add((1.0,), 0.5)
    assert fit.seconds((1.0,)) == pytest.approx(0.5)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_time_is_passed_over(seconds: float) -> None:
    fit = CostFit(fewest=1)
    fit.add((1.0,), seconds)
    assert fit.measurements() == []
    assert fit.seconds((1.0,)) is None


def test_of_each_size_the_latest_are_kept_and_a_rare_one_is_not_lost() -> None:
    fit = CostFit()
    fit.add((1.0, 1000.0), 9.0)
    for seconds in range(1, 20):
        fit.add((1.0, 4.0), float(seconds))
    kept = [((1.0, 1000.0), 9.0), *(((1.0, 4.0), float(seconds)) for seconds in range(15, 20))]
    assert fit.measurements() == kept


def test_the_oldest_is_forgotten_first_and_the_rest_decides() -> None:
    fit = CostFit(fewest=1)
    for value, seconds in ((4.0, 9.0), (1000.0, 1.0), (4.0, 1.0)):
        fit.add((1.0, value), seconds)
    fit.forget()
    assert fit.measurements() == [((1.0, 1000.0), 1.0), ((1.0, 4.0), 1.0)]
    assert fit.seconds((1.0, 4.0)) == pytest.approx(1.0)
    for _ in range(3):  # also of none
        fit.forget()
    assert fit.seconds((1.0, 4.0)) is None


def test_a_doubted_feature_costs_nothing_until_there_is_much_of_it() -> None:
    """Two measurements with next to nothing of it: what differs between them would be put on it."""
    plain, doubting = CostFit(), CostFit((0.0, 4000.0))
    for fit in (plain, doubting):
        fit.add((1.0, 1.0), 1.0)
        fit.add((1.0, 2.0), 1.1)
    far = (1.0, 4000.0)
    rash, careful = plain.seconds(far), doubting.seconds(far)
    assert rash is not None
    assert rash > 100
    assert careful is not None
    assert careful < 2
    for _ in range(3):
        doubting.add(far, 9.0)
    assert doubting.seconds(far) == pytest.approx(9.0, rel=0.1)  # some of the doubt stays
