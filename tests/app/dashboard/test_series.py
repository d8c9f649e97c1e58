"""Samples of the last minutes: what is kept, and what a wrong clock does to them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.series import Point, Series

TIMES = st.lists(st.floats(0, 1e6), max_size=200)


def test_what_is_older_than_the_window_goes() -> None:
    series = Series(window=10.0)
    for at in range(100):
        series.add(float(at), (float(at),))
    assert [point.at for point in series.points] == [float(at) for at in range(89, 100)]


def test_memory_stays_flat_over_eight_hours() -> None:
    series = Series()
    for place in range(8 * 3600 * 10):
        series.add(0.1 * place, (1.0,))
    assert len(series.points) == pytest.approx(3001, abs=1)
    assert len(series._points) < 2 * 3002 + 2


@given(TIMES)
def test_with_any_clock_times_are_in_order_and_within_the_window(times: list[float]) -> None:
    series = Series(window=50.0)
    for at in times:
        series.add(at, (1.0,))
        kept = [point.at for point in series.points]
        assert kept == sorted(kept)
        assert kept[-1] == at
        assert kept[0] >= at - 50.0


def test_a_clock_that_goes_back_begins_anew() -> None:
    series = Series()
    for at in (100.0, 101.0, 3.0):
        series.add(at, (at,))
    assert series.points == [Point(3.0, (3.0,))]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, None])
def test_what_is_no_number_is_none(wrong: float | None) -> None:
    series = Series()
    for at, value in ((1.0, 5.0), (1.1, wrong), (1.2, 6.0)):
        series.add(at, (value,))
    assert [point.values for point in series.points] == [(5.0,), (None,), (6.0,)]


def test_a_cut_is_one_point_without_values() -> None:
    series = Series()
    series.cut()
    series.add(1.0, (2.0, None))
    series.cut()
    series.cut()
    assert series.points == [Point(1.0, (2.0, None)), Point(1.0, (None, None))]
